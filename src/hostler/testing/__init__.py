"""Second implementations behind our seams, for deterministic tests: virtual time, an API server in memory, faults."""
