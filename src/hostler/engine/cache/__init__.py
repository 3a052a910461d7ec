"""Every host's verdict for each shape, kept until the host changes."""
