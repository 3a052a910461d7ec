"""What a VM is and how it goes on, pure: specs, states, guests for the engine, orders for agents. No I/O, no clock."""
