"""Decisions about VMs: rows in the database, the log of facts and steps, and the leader that decides."""
