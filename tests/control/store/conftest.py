"""Both databases for the contract tests: a file, and a database on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostler.control.store import Database, open_database
from tests.control.databases import PATIENT, either_url, nothing_left_open, postgres, postgres_url, sqlite_url

__all__ = ["either_url", "nothing_left_open", "postgres", "postgres_url", "sqlite_url"]


@pytest.fixture
def url(either_url: str) -> str:
    """Give the URL of an empty database of either kind."""
    return either_url


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """Give an open database of either kind."""
    opened = open_database(url, limits=PATIENT)
    yield opened
    opened.close()
