"""The log of facts and decisions, the leader's lease, and whether the log is still the known one."""
