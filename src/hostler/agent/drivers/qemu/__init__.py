"""The driver that runs QEMU itself: ``driver`` carries out verbs, the other modules are its parts.

``folder`` says what a VM is, ``processes`` which process runs it. ``machines`` boots and ends it, ``migration`` moves
it while it runs. ``inventory`` and ``halt`` find all VMs of a host.
"""
