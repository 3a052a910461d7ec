"""Both databases for what stands on the store; a file where it makes no difference."""

from __future__ import annotations

import pytest

from tests.control.databases import either_url, nothing_left_open, postgres, postgres_url, sqlite_url

__all__ = ["either_url", "nothing_left_open", "postgres", "postgres_url", "sqlite_url"]


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Give the URL of a file that does not exist yet."""
    return sqlite_url


@pytest.fixture
def shared_url(postgres_url: str) -> str:
    """Give the URL of an empty database that several replicas can use."""
    return postgres_url
