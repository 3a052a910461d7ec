"""Backup and restore of both kinds of database, and what a restore must not bring back."""
