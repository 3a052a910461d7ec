"""Databases for tests, as fixtures: a file, a database on a real PostgreSQL server, and either of them.

A ``conftest.py`` imports what its tests use, and gives it another name where that reads better there.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from hostler.control.store import DatabaseLimits, open_database
from tests.control.postgres import PostgresServer, nobody_connected, postgres

__all__ = [
    "PATIENT", "either_url", "mould", "moulded_url", "nothing_left_open", "postgres", "postgres_url", "sqlite_url",
]  # fmt: skip

_NUMBERS = count(1)
# A busy machine may let a test stand still anywhere, also inside a transaction, and nothing is to fail by that.
PATIENT = DatabaseLimits(busy_s=300.0, connect_s=60.0, statement_s=300.0, lock_s=300.0, idle_in_transaction_s=300.0)


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Blame the module that left connections open, not a later one."""
    yield
    gc.collect()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Give the URL of a file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'control.db'}"


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """Give the URL of an empty database on a real server, which several replicas can use."""
    name = postgres.new_database()
    yield postgres.address(name)
    postgres.drop_database(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def either_url(request: pytest.FixtureRequest) -> str:
    """Give the URL of an empty database of either kind."""
    return str(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url"))


@pytest.fixture(scope="session")
def mould(postgres: PostgresServer) -> str:
    """Give the name of a database with all tables and no rows, to be copied: making tables is most of the work."""
    name = postgres.new_database()
    open_database(postgres.address(name), limits=PATIENT).close()
    nobody_connected(postgres.address(name))  # PostgreSQL copies no database that is in use
    return name


@pytest.fixture(params=["sqlite", "postgresql"])
def moulded_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the same, with all tables on the server already."""
    if request.param == "sqlite":
        yield str(request.getfixturevalue("sqlite_url"))
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    original = request.getfixturevalue("mould")
    name = f"{original}_{next(_NUMBERS)}"
    server.sql(f"CREATE DATABASE {name} TEMPLATE {original}")
    yield server.address(name)
    server.drop_database(name)
