"""Databases for what stands on the store: a file, and a real server where the difference could matter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostler.control.store import Database, open_database
from tests.control.databases import PATIENT, nothing_left_open, postgres, postgres_url, sqlite_url

__all__ = ["nothing_left_open", "postgres", "postgres_url", "sqlite_url"]


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Give an open, empty file; to tests marked ``on_both`` a database on a real server, too."""
    kind = getattr(request, "param", "sqlite")
    url = request.getfixturevalue("sqlite_url" if kind == "sqlite" else "postgres_url")
    opened = open_database(url, limits=PATIENT)
    yield opened
    opened.close()
