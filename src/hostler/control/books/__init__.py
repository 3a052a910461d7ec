"""The books: VMs in the database, the log that decides, and the one process at a time that turns it into placements."""
