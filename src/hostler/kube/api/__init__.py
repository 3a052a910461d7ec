"""The Kubernetes API: transport, credentials, typed errors, and lists and watches that recover from failures."""
