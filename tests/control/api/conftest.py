"""Both databases for tests of what the database has a say in: pages, filters, repetitions, versions and streams."""

from __future__ import annotations

import pytest

from tests.control.databases import mould, moulded_url, postgres, sqlite_url

__all__ = ["mould", "moulded_url", "postgres", "sqlite_url"]


@pytest.fixture
def url(moulded_url: str) -> str:
    """Give the URL of an empty database of either kind."""
    return moulded_url
