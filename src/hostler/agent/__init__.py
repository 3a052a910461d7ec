"""The agent of a hypervisor host: it carries out what the control plane orders, and reports what is.

``messages`` is what both sides say, ``core`` decides what to do next and does nothing itself, ``drivers`` are the
hypervisors. Installed on every host, so it needs neither numpy nor the engine.
"""
