"""Kubernetes: an API client, the scheduler for a live cluster, and local control planes to try it on.

Nothing is decided here. Watched objects become facts for the engine, its actions become API calls, and the outcomes of
those calls become facts again. ``api`` is the client, ``facts`` the way in, ``scheduler`` the loop and the way out,
``local`` real control planes on this machine.
"""
