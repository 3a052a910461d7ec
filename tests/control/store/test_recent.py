"""What this process wrote to the log last is known without reading it, as the database has it, and never more."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from hostler.control.store import Connection, Database, open_database
from hostler.control.store.errors import LogWentBackError
from hostler.control.store.history import log
from hostler.control.store.history.log import StoredEntry
from hostler.control.store.writes.writer import RecentEntries
from hostler.errors import ConflictError
from tests.control.databases import PATIENT
from tests.control.store.row_makers import fact, note


def entries(*numbers: int) -> list[StoredEntry]:
    return [StoredEntry(seq=number, at_ns=number, kind="fact", body=b"{}") for number in numbers]


def append(database: Database, *new: log.NewEntry) -> None:
    database.submit(lambda connection: log.append(connection, new)).result(30)


def read(database: Database, seq: int) -> list[StoredEntry]:
    return database.read_now(lambda connection: log.read_after(connection, seq, 100))


def test_what_was_written_is_known_as_it_is_read(database):
    append(database, fact(b'{"a":"\xc3\xbc"}', project="shop", subject="vm-1"), note(b"b"))
    append(database)
    append(database, fact(b"c"))
    for seq in range(5):
        assert database.written_after(seq) == read(database, seq)
    assert len(database.written_after(0)) == 3


def test_of_a_work_that_failed_nothing_is_known(database):
    def fails(connection: Connection) -> None:
        log.append(connection, [fact(b"never")])
        raise ConflictError("changed its mind", hint="")

    append(database, fact(b"before"))
    with pytest.raises(ConflictError):
        database.submit(fails).result(30)
    append(database, fact(b"after"))
    assert [entry.body for entry in database.written_after(0)] == [b"before", b"after"]
    assert database.written_after(0) == read(database, 0)


def test_where_others_wrote_between_only_the_database_knows(postgres_url):
    ours, theirs = (open_database(postgres_url, limits=PATIENT) for _ in range(2))
    try:
        append(ours, fact(b"1"))
        append(theirs, fact(b"2"))
        append(ours, fact(b"3"), fact(b"4"))
        assert ours.written_after(0) == ours.written_after(1) == []
        assert ours.written_after(2) == read(ours, 2)
        assert ours.written_after(3) == read(ours, 3)
    finally:
        theirs.close()
        ours.close()


def test_of_a_server_that_took_over_only_the_database_knows_what_it_has(postgres, postgres_url):
    database = open_database(postgres_url, limits=PATIENT)
    try:
        append(database, fact(b"1"), fact(b"2"))
        postgres.crash()
        postgres.start()
        # As a standby that had not received all of it.
        lost = "DELETE FROM log WHERE seq = 2; UPDATE log_head SET seq = 1"
        postgres.sql(lost, urlsplit(postgres_url).path.removeprefix("/"))
        with pytest.raises(LogWentBackError):
            database.submit(lambda connection: None).result(30)
        assert [entry.body for entry in read(database, 0)] == [b"1"]
        assert database.written_after(1) == []
    finally:
        database.close()


def test_only_the_newest_are_kept():
    recent = RecentEntries(most=3)
    assert recent.after(0) == []
    recent.add(entries(1, 2))
    recent.add(entries(3, 4, 5))
    assert recent.after(1) == []
    assert recent.after(2) == entries(3, 4, 5)
    assert recent.after(4) == entries(5)
    assert recent.after(5) == []
    recent.add(entries(6, 7, 8, 9))
    assert recent.after(5) == []
    assert recent.after(6) == entries(7, 8, 9)


def test_of_large_ones_fewer_are_kept():
    def large(number: int) -> StoredEntry:
        return StoredEntry(seq=number, at_ns=number, kind="fact", body=b"x" * 40)

    recent = RecentEntries(most_bytes=100)
    recent.add([large(1), large(2)])
    assert recent.after(0) == [large(1), large(2)]
    recent.add([large(3)])
    assert (recent.after(0), recent.after(1)) == ([], [large(2), large(3)])
    recent.add([large(5)])  # another one wrote between
    recent.add([large(6)])
    assert recent.after(4) == [large(5), large(6)], "what was forgotten counts no longer"
    recent.add([large(number) for number in range(7, 17)])
    assert recent.after(14) == [large(15), large(16)]
