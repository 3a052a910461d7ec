"""Commands of the VM control plane: service, agents and client; one file each."""
