"""Hypervisors behind the protocol of ``agent.driver``: ``fake``, ``qemu`` and ``libvirt``.

The drivers do not import each other. What the drivers of real VMs share about their machine is in ``machine``.
"""
