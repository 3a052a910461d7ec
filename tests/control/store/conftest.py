"""Both databases for the contract tests: a file, and a database on a real PostgreSQL server."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.control.store import Database, open_database
from tests.control.postgres import PostgresServer, postgres

__all__ = ["postgres"]


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Blame the module that left connections open, not a later one."""
    yield
    gc.collect()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of an empty database of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'control.db'}"
        return
    yield from _fresh(request.getfixturevalue("postgres"))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Give the URL of a file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'control.db'}"


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """Give the URL of an empty database on a real server."""
    yield from _fresh(postgres)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """Give an open database of either kind."""
    opened = open_database(url)
    yield opened
    opened.close()


def _fresh(server: PostgresServer) -> Iterator[str]:
    name = server.new_database()
    yield server.address(name)
    server.drop_database(name)
