"""Commands of the VM control plane: the service, its agents, its client; one file each."""
