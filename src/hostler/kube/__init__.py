"""Kubernetes: a client of our own, the scheduler on a live cluster, and local control planes to try it on.

No decision is made here. Watched objects become facts for the engine, its actions become calls of the API, and what
came of them becomes facts again. ``api`` is the client, ``facts`` the way in, ``scheduler`` the loop and the way out,
``local`` real control planes on this machine.
"""
