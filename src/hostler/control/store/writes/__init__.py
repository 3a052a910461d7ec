"""The one writer of a process: works that wait, group commit, and whether a write is in progress."""
