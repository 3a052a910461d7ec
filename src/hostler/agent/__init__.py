"""The agent of a hypervisor host: it carries out what the control plane orders, and reports what is.

``messages`` is what both sides say. ``core`` decides what to do next and does nothing itself. ``process`` puts an agent
together: on the host ``worker`` with ``manifest``, to the control plane ``connection`` with its ``link``. ``startup``
makes it a process of the operating system; ``supervision`` keeps another beside it, with the parts in
``watchdog``. ``driver`` is the protocol of hypervisors, ``drivers`` has them. Installed on every host, so it needs
neither numpy nor the engine.
"""
