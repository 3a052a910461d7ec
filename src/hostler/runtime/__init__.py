"""What every live front needs: clock, backoff, tasks, files, engine thread, listener, metrics.

On one level with ``queries``: fronts (``kube``, ``control``, ``agent``, ``cli``) and ``sim`` use it, and it imports
none of them. Agents run on hosts without numpy: only ``engine_thread`` may import the engine, and agents may not import
it.
"""
