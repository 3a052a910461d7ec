"""The agent of a hypervisor host: it carries out what the control plane orders, and reports what is.

``messages`` is what both sides say. ``core`` decides what to do next and does nothing itself; its parts, all pure, are
``state``, ``choosing``, ``settling``, ``planning``, ``admission`` and ``reporting``. ``process`` puts an agent
together: on the host ``worker`` with ``executor`` and ``manifest``, to the control plane ``link`` with ``transport``
and ``http``. ``running`` makes it a process; ``guarding`` keeps another beside it, the ``watchdog``, whose ``pulse`` it
looks for. ``drivers`` are the hypervisors. Installed on every host, so it needs neither numpy nor the engine.
"""
