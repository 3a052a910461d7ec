"""The driver on libvirt: ``driver`` carries out verbs, the other modules are its parts."""
