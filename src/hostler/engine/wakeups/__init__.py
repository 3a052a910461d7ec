"""Which waiting guests are tried again after an event: those it may cure, and those that depend on moved guests."""
