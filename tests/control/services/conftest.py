"""A database with the default project and a caller who may do everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from hostler.control.access.principals import Principal
from hostler.control.services import first_start
from hostler.control.services.callers import Caller
from hostler.control.store import Connection, Database, open_database
from tests.control.api.service_in_process import fake_random
from tests.control.databases import PATIENT, nothing_left_open, sqlite_url

__all__ = ["nothing_left_open", "sqlite_url"]

T = TypeVar("T")
Write = Callable[[Callable[[Connection], Any]], Any]
NOW = 1_800_000_000_000_000_000


@pytest.fixture
def database(sqlite_url: str) -> Iterator[Database]:
    """Give a database as it is after the first start."""
    opened = open_database(sqlite_url, limits=PATIENT)
    opened.submit(lambda connection: first_start.prepare(connection, NOW, fake_random)).result()
    yield opened
    opened.close()


@pytest.fixture
def write(database: Database) -> Write:
    """Give a way to run one work after the other."""
    return lambda work: database.submit(work).result()


@pytest.fixture
def admin() -> Caller:
    """Give a caller who may do everything."""
    return Caller(principal=Principal(id="root", role="admin"), now_ns=NOW, request_id="r-1")
