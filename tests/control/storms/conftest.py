"""A real PostgreSQL server for storms."""

from __future__ import annotations

from tests.control.databases import nothing_left_open, postgres, postgres_url, sqlite_url

__all__ = ["nothing_left_open", "postgres", "postgres_url", "sqlite_url"]
