"""Group commit: works share a COMMIT and nothing else."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import msgspec
import pytest
from sqlalchemy import Connection, text

from hostler.control.store import Database, open_database
from hostler.control.store.errors import (
    DatabaseClosedError,
    NameTakenError,
    OverloadedError,
    StillUsedError,
)  # fmt: skip
from hostler.control.store.history import log
from hostler.control.store.rows import documents
from hostler.errors import HostlerError, InternalError
from tests.control.databases import PATIENT
from tests.control.store.row_makers import note


def put(name: str):
    return lambda connection: documents.insert(connection, "setting", documents.DocumentRow(project="", name=name))


def names(database: Database) -> list[str]:
    return [row.name for row in database.read_now(lambda connection: documents.list_all(connection, "setting"))]


class Gate:
    """Keeps the writer busy, so that what is submitted meanwhile shares the next transaction."""

    def __init__(self, database: Database) -> None:
        self._open = threading.Event()
        self._entered = threading.Event()
        self._done = database.submit(self._wait)
        assert self._entered.wait(30)

    def _wait(self, connection: Connection) -> None:
        self._entered.set()
        assert self._open.wait(60)  # sessions of tests may be idle in a transaction for longer

    def open(self) -> None:
        self._open.set()
        self._done.result(30)


async def test_a_write_returns_what_its_work_returned_and_is_read_by_others(database):
    row = await database.write(put("a"))
    assert row.name == "a"
    assert await database.read(lambda c: documents.get(c, "setting", "", "a")) == row


def test_works_that_wait_share_one_commit(database):
    gate = Gate(database)
    before = database.commits
    futures = [database.submit(put(f"n{number:02}")) for number in range(20)]
    gate.open()
    for future in futures:
        future.result(30)
    assert database.commits == before + 2  # the gate's, and one for all
    assert len(names(database)) == 20


def test_a_work_that_fails_hurts_nobody_else(database):
    def half(connection: Connection) -> None:
        put("half")(connection)
        log.append(connection, [note()])
        raise ZeroDivisionError

    def misspelt(connection: Connection) -> None:
        connection.execute(text("SELECT nothing FROM nowhere"))

    gate = Gate(database)
    works = [put("a"), half, put("b"), misspelt, put("a"), put("c")]
    futures: list[Future] = [database.submit(work) for work in works]
    gate.open()
    errors = [future.exception(30) for future in futures]
    assert [type(error) for error in errors if error] == [ZeroDivisionError, type(errors[3]), NameTakenError]
    assert isinstance(errors[3], HostlerError)
    assert names(database) == ["a", "b", "c"]
    assert database.read_now(log.head) == 0
    counted = {cause: count for cause, count in database.failures.items() if count}
    assert counted == {errors[3].code: 1}, "what the database did not do, and nothing that was rightly refused"


def test_a_work_that_swallowed_an_error_of_the_database_hurts_nobody_else(database):
    def careless(connection: Connection) -> None:
        put("lost")(connection)
        try:
            connection.execute(text("SELECT nothing FROM nowhere"))
        except Exception:
            return

    gate = Gate(database)
    first, middle, last = database.submit(put("a")), database.submit(careless), database.submit(put("b"))
    gate.open()
    first.result(30)
    last.result(30)
    middle.exception(30)  # SQLite carries on after such an error, PostgreSQL does not
    assert [name for name in names(database) if name != "lost"] == ["a", "b"]


@pytest.mark.parametrize("verb", ["commit", "rollback"])
def test_work_that_ends_shared_transaction_writes_nothing(database, verb):
    gate = Gate(database)
    before = database.submit(put("before"))
    rude = database.submit(lambda connection: getattr(connection, verb)())
    gate.open()
    for future in (before, rude):
        with pytest.raises(InternalError):
            future.result(30)
    database.submit(put("after")).result(30)
    assert names(database) == ["after"]


def test_a_broken_reference_is_an_error_of_ours(database):
    def orphan(connection: Connection) -> None:
        connection.execute(text("INSERT INTO vm_labels (owner, key, value) VALUES ('nobody', 'a', 'b')"))

    with pytest.raises(StillUsedError):
        database.submit(orphan).result(30)


def test_a_read_cannot_write(database):
    with pytest.raises(HostlerError):
        database.read_now(put("a"))
    assert names(database) == []


def test_a_read_sees_one_snapshot(database):
    def twice(connection: Connection) -> tuple[int, int]:
        before = len(documents.list_all(connection, "setting"))
        database.submit(put("meanwhile")).result(30)
        return before, len(documents.list_all(connection, "setting"))

    assert database.read_now(twice) == (0, 0)
    assert names(database) == ["meanwhile"]


def test_a_write_that_is_cancelled_before_its_turn_is_not_run(database):
    gate = Gate(database)
    unwanted, wanted = database.submit(put("unwanted")), database.submit(put("wanted"))
    assert unwanted.cancel()
    gate.open()
    wanted.result(30)
    assert names(database) == ["wanted"]


def test_closing_finishes_what_is_queued_and_refuses_the_rest(url):
    database = open_database(url, limits=PATIENT)
    gate = Gate(database)
    futures = [database.submit(put(f"n{number}")) for number in range(5)]
    gate.open()
    database.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(DatabaseClosedError):
        database.submit(put("late"))
    with pytest.raises(DatabaseClosedError):
        names(database)
    database.close()
    again = open_database(url, limits=PATIENT)
    assert len(names(again)) == 5
    again.close()


def test_more_than_may_wait_is_refused_at_once(url):
    database = open_database(url, limits=msgspec.structs.replace(PATIENT, waiting=2))
    gate = Gate(database)
    futures = [database.submit(put("a")), database.submit(put("b"))]
    with pytest.raises(OverloadedError):
        database.submit(put("c"))
    assert database.failures["database_overloaded"] == 1
    gate.open()
    for future in futures:
        future.result(30)
    assert names(database) == ["a", "b"]
    database.close()
