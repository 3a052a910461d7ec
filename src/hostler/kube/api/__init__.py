"""The Kubernetes API: transport, credentials, typed errors, and list and watch that recover from everything."""
