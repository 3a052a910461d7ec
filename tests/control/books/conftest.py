"""Both databases, as for the store itself."""

from __future__ import annotations

from tests.control.databases import either_url, nothing_left_open, postgres, postgres_url, sqlite_url
from tests.control.store.conftest import database, url

__all__ = ["database", "either_url", "nothing_left_open", "postgres", "postgres_url", "sqlite_url", "url"]
