"""Services for projects: keys, quotas, reservations, and their limits."""
