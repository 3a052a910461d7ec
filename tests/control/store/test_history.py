"""A PostgreSQL server that took over and lacks commits: it is found at the next connection, and never written to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from hostler.control.store import Database, open_database
from hostler.control.store.errors import LogWentBackError
from hostler.control.store.history import log
from hostler.control.store.history.continuity import LogContinuity, Tip
from hostler.control.store.history.log import StoredEntry
from tests.control.books.replica_setup import BooksReplica, ReplicaSetup, all_placed, at_rest
from tests.control.databases import PATIENT
from tests.control.postgres import PostgresServer
from tests.control.store.row_makers import fact
from tests.wait import until


class Standby:
    """A copy of a database as it was at some time, which can take its place as a standby does that is promoted."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self._server = server
        self._name = name
        server.sql(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")  # it copies none that is used
        self._end_sessions()
        server.sql(f"CREATE DATABASE {self._copy} TEMPLATE {name}")
        server.sql(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")

    @property
    def _copy(self) -> str:
        return f"{self._name}_standby"

    @property
    def url(self) -> str:
        return self._server.address(self._copy)

    def promote(self) -> None:
        """Cut all connections, and answer by the same address from now on."""
        self._server.sql(f"ALTER DATABASE {self._name} WITH ALLOW_CONNECTIONS false")
        self._end_sessions()
        self._server.sql(f"ALTER DATABASE {self._name} RENAME TO {self._name}_former")
        self._server.sql(f"ALTER DATABASE {self._copy} RENAME TO {self._name}")

    def _end_sessions(self) -> None:
        ended = f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{self._name}'"
        self._server.sql(ended)


@pytest.fixture
def standby(postgres: PostgresServer, postgres_url: str) -> Iterator[Standby]:
    """Give a standby that has the first three entries of the log."""
    name = urlsplit(postgres_url).path.removeprefix("/")
    database = open_database(postgres_url, limits=PATIENT)
    append(database, b"1", b"2", b"3")
    database.close()
    yield Standby(postgres, name)
    for left in (f"{name}_standby", f"{name}_former"):
        postgres.drop_database(left)


def append(database: Database, *bodies: bytes) -> list[int]:
    return database.submit(lambda connection: log.append(connection, [fact(body) for body in bodies])).result(30)


def bodies(database: Database) -> list[bytes]:
    return [entry.body for entry in database.read_now(lambda connection: log.read_after(connection, 0, 100))]


def elsewhere(standby: Standby, *found: bytes) -> None:
    """Write to the standby after it was promoted, before this process is connected again."""
    database = open_database(standby.url, limits=PATIENT)
    append(database, *found)
    database.close()


OTHER_PASTS = [
    pytest.param([], "ends at entry 3", id="shorter"),
    pytest.param([b"x"], "ends at entry 4", id="other-entries-fewer"),
    pytest.param([b"x", b"y"], "entry 5 of its log is not", id="other-entries-same-head"),
    pytest.param([b"x", b"y", b"z", b"u"], "entry 5 of its log is not", id="other-entries-higher-head"),
]


@pytest.mark.parametrize("is_read_first", [False, True])
@pytest.mark.parametrize(("other", "why"), OTHER_PASTS)
def test_promoted_standby_without_commits_is_never_written_to(postgres_url, standby, other, why, is_read_first):
    database = open_database(postgres_url, limits=PATIENT)
    append(database, b"4", b"5")
    bodies(database)
    elsewhere(standby, *other)
    standby.promote()
    there = [b"1", b"2", b"3", *other]
    if is_read_first:
        assert bodies(database) == there, "users still read"
        assert database.history.went_back is not None
    for _ in range(2):
        with pytest.raises(LogWentBackError, match=why) as caught:
            append(database, b"6")
    assert "hostler restore --in-place" in caught.value.hint
    assert (caught.value.exit_code, caught.value.retryable) == (3, False)
    assert bodies(database) == there
    assert database.failures["log_went_back"] == 2
    database.close()


def test_entry_that_was_only_read_is_missed_too(postgres_url, standby):
    """A replica that follows has written nothing itself."""
    other = open_database(postgres_url, limits=PATIENT)
    append(other, b"4", b"5")
    other.close()
    database = open_database(postgres_url, limits=PATIENT)
    database.history.note(database.read_now(lambda connection: log.read_after(connection, 0, 100))[-1])
    standby.promote()
    with pytest.raises(LogWentBackError, match="entry 5 was committed"):
        append(database, b"6")
    database.close()


def test_standby_that_has_everything_is_gone_on_with(postgres, postgres_url):
    database = open_database(postgres_url, limits=PATIENT)
    append(database, b"1", b"2", b"3")
    whole = Standby(postgres, urlsplit(postgres_url).path.removeprefix("/"))
    elsewhere(whole, b"4")
    whole.promote()
    assert append(database, b"5") == [5]
    assert bodies(database) == [b"1", b"2", b"3", b"4", b"5"]
    database.close()
    postgres.drop_database(f"{urlsplit(postgres_url).path.removeprefix('/')}_former")


def test_forgotten_entry_is_not_missed(database):
    """What retention removed cannot be compared; the head has to be there."""
    append(database, *[b"x"] * 5)
    old = database.read_now(lambda connection: log.read_after(connection, 1, 1))[0]

    def forget(connection) -> None:
        for seq in (4, 5):
            log.save_checkpoint(connection, log.StoredCheckpoint(seq=seq, at_ns=1, format="1", body=b""))
        assert log.forget_before(connection, 100) == 4

    database.submit(forget).result(30)
    history = LogContinuity(lambda connection: False)
    history.note(old)
    database.read_now(lambda connection: history._compare(connection, history.tip))
    assert history.went_back is None
    database.read_now(lambda connection: history._compare(connection, Tip(6, b"")))
    assert "ends at entry 5" in str(history.went_back)


def test_digest_of_an_entry_covers_all_that_is_stored(database):
    found = StoredEntry(seq=7, at_ns=1, kind="fact", body=b"b", actor="a", project="p", subject="s")
    others = [{"seq": 8}, {"at_ns": 2}, {"kind": "note"}, {"body": b"c"}, {"actor": "x"}, {"project": "x"}]
    digests = {tip_of(found)} | {
        tip_of(StoredEntry(**{**as_dict(found), **other})) for other in [*others, {"subject": "x"}]
    }
    assert len(digests) == 8


def tip_of(entry: StoredEntry) -> bytes:
    history = LogContinuity(lambda connection: False)
    history.note(entry)
    return history.tip.digest


def as_dict(entry: StoredEntry) -> dict[str, object]:
    return {name: getattr(entry, name) for name in entry.__struct_fields__}


def test_leader_stops_deciding_when_the_log_went_back(postgres, postgres_url):
    """It decides nothing and writes nothing, says what to do once, and answers what it is asked."""

    async def story() -> None:
        database = open_database(postgres_url, limits=PATIENT)
        setup = ReplicaSetup(database)
        await setup.build(2)
        replica = await BooksReplica(setup.books("leader")).start()
        await setup.create("first")
        await all_placed(setup, "first")
        await at_rest(setup, replica.books)
        # Its connections break once for the copy, and it goes on.
        standby = Standby(postgres, urlsplit(postgres_url).path.removeprefix("/"))
        await setup.create("second")
        await all_placed(setup, "second")
        standby.promote()
        await until(lambda: bool(replica.books.trouble))
        assert "lost changes that were committed" in replica.books.trouble
        assert not replica.books.is_ready
        assert not replica.books.is_leader
        with pytest.raises(LogWentBackError):
            await setup.create("third")
        head = await database.read(log.head)
        tries = replica.books.rebuilds
        await replica.books.ask(lambda engine: engine.now)
        assert await database.read(log.head) == head
        assert replica.books.rebuilds == tries
        told = [line for line in setup.said if "hostler restore --in-place" in line]
        assert len(told) == 1, setup.said
        await replica.stop()
        await database.aclose()

    try:
        asyncio.run(story())
    finally:
        postgres.drop_database(f"{urlsplit(postgres_url).path.removeprefix('/')}_former")
