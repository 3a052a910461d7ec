"""The write-ahead log of the embedded database: it is emptied although there is a reader at every moment."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import msgspec
from sqlalchemy import Connection, text

from hostler.control.store import Database, open_database
from hostler.control.store.history import log
from tests.control.databases import PATIENT
from tests.control.store.row_makers import note

BOUND = 256 * 1024
SMALL = msgspec.structs.replace(PATIENT, wal_bytes=BOUND)
MOST = 2000  # writes; about a dozen fill the log


class Relay:
    """Readers one of whom holds a snapshot at any moment: each goes only when the next has come."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_over = threading.Event()
        self._came = [threading.Semaphore(0), threading.Semaphore(0)]
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in (0, 1)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        while not self._is_over.is_set():
            self._database.read_now(lambda connection: self._hold(connection, number))

    def _hold(self, connection: Connection, number: int) -> None:
        connection.execute(text("SELECT count(*) FROM log")).one()
        self._came[number].release()
        while not self._is_over.is_set() and not self._came[1 - number].acquire(timeout=0.01):
            pass


def wal_of(database: Database) -> Path:
    return Path(f"{database.name}-wal")


def write(database: Database) -> int:
    """Write something long, and return how long the log is then."""
    entry = note(b'"%s"' % (b"x" * 20_000))
    database.submit(lambda connection: log.append(connection, [entry])).result(60)
    return wal_of(database).stat().st_size


def test_it_is_emptied_while_readers_relieve_each_other_without_end(sqlite_url):
    database = open_database(sqlite_url, limits=SMALL)
    with closing(Relay(database)):
        longest, size, written = 0, write(database), 1
        while size >= longest and written < MOST:
            longest, size, written = size, write(database), written + 1
        assert size < longest, "a writer that never rested found it empty once"
    assert database.read_now(log.head) == written
    database.close()


def test_what_a_reader_that_stays_may_still_read_is_kept_until_it_has_gone(sqlite_url):
    database = open_database(sqlite_url, limits=SMALL)
    write(database)
    with closing(sqlite3.connect(database.name, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchone()
        sizes = [write(database) for _ in range(3 * BOUND // 20_000)]
        assert sizes == sorted(sizes)
        assert sizes[-1] > BOUND
    sizes = [write(database) for _ in range(3 * BOUND // 20_000)]
    assert min(sizes) < BOUND
    database.close()
