"""The executors of the engine's actions: binds, evictions, statuses, events, volumes, and a limit on open calls.

Nothing here decides or drives the engine. The loop above submits actions and receives their outcomes as facts.
"""
