"""SQLite and PostgreSQL behind one protocol, with their limits, notices and locks."""
