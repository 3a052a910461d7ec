"""Explanations of the engine about VMs and hosts, in the words of users, with the names that the caller may see."""
