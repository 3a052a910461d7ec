"""A file as the database of a service with real VMs."""

from __future__ import annotations

from tests.control.databases import nothing_left_open, sqlite_url

__all__ = ["nothing_left_open", "sqlite_url"]
