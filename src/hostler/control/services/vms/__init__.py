"""Services for VMs and gangs."""
