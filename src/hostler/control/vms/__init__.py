"""The state machine of VMs: specs, states, guests for the engine, orders for agents. Pure: no I/O, no clock."""
