"""The watchdog: it stops VMs whose host lost the control plane, and shows by a pulse that it could.

``deadlines`` has the timeline, which the control plane shares. ``supervision`` of the agent runs it.
"""
