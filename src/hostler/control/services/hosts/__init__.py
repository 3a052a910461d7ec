"""Services for hosts: views, changes by operators, and why hosts take no VMs."""
