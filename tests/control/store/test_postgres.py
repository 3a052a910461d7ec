"""What only PostgreSQL can do to us: connections that break, servers that go away, notices between processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec
import pytest
from sqlalchemy import Connection, text

from hostler.control.store import Database, DatabaseLimits, OutcomeUnknownError, open_database
from hostler.control.store.backends.postgres import PostgresNotifier
from hostler.control.store.errors import DatabaseUnavailableError, StillUsedError
from hostler.control.store.history import log
from hostler.control.store.rows import documents
from hostler.errors import InputError
from tests.control.databases import PATIENT
from tests.control.postgres import PostgresServer
from tests.control.store.connection_relay import ConnectionRelay
from tests.control.store.row_makers import fact
from tests.wait import until, wait_until


def put(name: str):
    return lambda connection: documents.insert(connection, "setting", documents.DocumentRow(project="", name=name))


def names(database: Database) -> list[str]:
    return [row.name for row in database.read_now(lambda connection: documents.list_all(connection, "setting"))]


def name_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


@pytest.fixture
def direct(postgres_url: str) -> Iterator[Database]:
    database = open_database(postgres_url, limits=PATIENT)
    yield database
    database.close()


@pytest.fixture
def relay(postgres: PostgresServer) -> Iterator[ConnectionRelay]:
    opened = ConnectionRelay(postgres.socket)
    yield opened
    opened.close()


@pytest.fixture
def relayed(
    postgres: PostgresServer, direct: Database, relay: ConnectionRelay, postgres_url: str
) -> Iterator[Database]:
    """Give the same database as ``direct``, by way of the relay."""
    address = postgres.address(name_of(postgres_url), host="127.0.0.1", port=relay.port)
    database = open_database(address, limits=PATIENT)
    yield database
    database.close()


@pytest.mark.parametrize(("when", "found"), [("before", []), ("after", ["a", "b"])])
def test_unanswered_commit_is_unknown_until_read(direct, relayed, relay, when, found):
    entered, go = threading.Event(), threading.Event()

    def gate(connection: Connection) -> None:
        entered.set()
        go.wait(60)

    blocked = relayed.submit(gate)
    assert entered.wait(30)
    relay.cut_next(when, spared=1)
    futures = [relayed.submit(put("a")), relayed.submit(put("b"))]
    go.set()
    blocked.result(30)
    for future in futures:
        with pytest.raises(OutcomeUnknownError):
            future.result(30)
    # The next write waits for the row that the lost transaction may still lock: after it, the outcome is settled.
    relayed.submit(lambda c: None).result(30)
    assert names(direct) == found
    assert names(relayed) == found


@pytest.mark.parametrize(("when", "found"), [("before", [b"1", b"3"]), ("after", [b"1", b"2", b"3"])])
def test_what_a_commit_without_an_answer_wrote_is_never_known_from_memory(direct, relayed, relay, when, found):
    def append(body: bytes) -> None:
        relayed.submit(lambda connection: log.append(connection, [fact(body)])).result(30)

    append(b"1")
    relay.cut_next(when)
    with pytest.raises(OutcomeUnknownError):
        append(b"2")
    assert relayed.written_after(1) == []
    append(b"3")
    entries = direct.read_now(lambda connection: log.read_after(connection, 0, 100))
    assert [entry.body for entry in entries] == found
    for seq in range(len(entries)):
        assert relayed.written_after(seq) in ([], entries[seq:])


def test_backend_killed_during_commit_leaves_outcome_unknown(direct, postgres, postgres_url):
    postgres.sql(
        "CREATE FUNCTION doze() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(30); RETURN NULL; END $$",
        name_of(postgres_url),
    )
    postgres.sql(
        "CREATE CONSTRAINT TRIGGER doze AFTER INSERT ON settings DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION doze()",
        name_of(postgres_url),
    )
    future = direct.submit(put("a"))
    committing = "FROM pg_stat_activity WHERE query = 'COMMIT' AND state = 'active'"
    wait_until(lambda: postgres.sql(f"SELECT pid {committing}"))
    postgres.sql(f"SELECT pg_terminate_backend(pid) {committing}")
    assert isinstance(future.exception(30), OutcomeUnknownError)
    assert not future.exception(30).retryable
    direct.submit(lambda connection: None).result(30)
    assert names(direct) == []


def test_a_commit_that_the_server_refuses_is_no_unknown_outcome(direct, postgres, postgres_url):
    postgres.sql("ALTER TABLE vms ALTER CONSTRAINT fk_vms_project DEFERRABLE INITIALLY DEFERRED", name_of(postgres_url))
    values = "('x', 'nowhere', 'x', false, '')"
    statement = text(f"INSERT INTO vms (id, project, name, is_protected, status) VALUES {values}")
    with pytest.raises(StillUsedError):
        direct.submit(lambda connection: connection.execute(statement).rowcount).result(30)
    direct.submit(put("a")).result(30)
    assert names(direct) == ["a"]


def test_connection_broken_before_commit_wrote_nothing_and_reopens(direct, postgres, postgres_url):
    def suicidal(connection: Connection) -> None:
        put("lost")(connection)
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(DatabaseUnavailableError) as caught:
        direct.submit(suicidal).result(30)
    assert caught.value.retryable
    direct.submit(put("a")).result(30)
    assert names(direct) == ["a"]


def test_a_server_that_restarted_meanwhile_is_not_noticed(direct, postgres):
    direct.submit(put("a")).result(30)
    assert names(direct) == ["a"]
    postgres.stop()
    with pytest.raises(DatabaseUnavailableError):
        direct.submit(put("b")).result(30)
    with pytest.raises(DatabaseUnavailableError):
        names(direct)
    postgres.start()
    direct.submit(put("c")).result(30)
    assert names(direct) == ["a", "c"]


def test_an_idle_connection_that_broke_costs_nobody_a_write(direct, postgres):
    direct.submit(put("a")).result(30)
    postgres.crash()
    postgres.start()
    direct.submit(put("b")).result(30)
    assert names(direct) == ["a", "b"]


def test_replica_stuck_in_transaction_does_not_block_others_for_long(postgres_url):
    other = open_database(postgres_url, limits=PATIENT)
    # As long as in earnest: a busy machine lets it stand still for shorter times where it is not meant to.
    usual = msgspec.structs.replace(PATIENT, idle_in_transaction_s=DatabaseLimits().idle_in_transaction_s)
    slow = open_database(postgres_url, limits=usual)
    entered, go = threading.Event(), threading.Event()

    def still(connection: Connection) -> None:
        entered.set()
        put("lost")(connection)
        go.wait(60)

    future = slow.submit(still)
    assert entered.wait(30)
    other.submit(put("a")).result(30)  # although the other one has not gone on yet
    go.set()
    assert isinstance(future.exception(30), DatabaseUnavailableError | OutcomeUnknownError)
    slow.submit(put("b")).result(30)
    assert names(other) == ["a", "b"]
    slow.close()
    other.close()


def test_replicas_changing_rows_in_opposite_order_do_not_deadlock(direct, postgres_url):
    other = open_database(postgres_url, limits=PATIENT)
    for name in ("a", "b"):
        direct.submit(put(name)).result(30)

    def change(name: str):
        def work(connection: Connection) -> None:
            row = documents.get(connection, "setting", "", name)
            documents.save(connection, "setting", row)

        return work

    futures = []
    for _ in range(40):
        futures += [direct.submit(change("a")), direct.submit(change("b"))]
        futures += [other.submit(change("b")), other.submit(change("a"))]
    assert [future.exception(60) for future in futures] == [None] * 160
    assert [row.version for row in direct.read_now(lambda c: documents.list_all(c, "setting"))] == [81, 81]
    other.close()


def test_a_text_that_the_database_cannot_keep_is_bad_input(direct):
    with pytest.raises(InputError):
        direct.submit(put("nul\x00")).result(30)


async def test_a_notice_wakes_another_process_and_only_when_the_log_grew(direct, postgres_url):
    other = open_database(postgres_url, limits=PATIENT)

    notifier = other.notifier
    assert isinstance(notifier, PostgresNotifier)
    notifier.listen()
    assert await asyncio.to_thread(notifier.is_listening.wait, 30)
    await until(lambda: notifier.count != 0, "the notice that listening began")
    seen = notifier.count
    await direct.write(put("no news"))
    await direct.write(lambda connection: log.append(connection, [fact()]))
    assert await notifier.wait(30, since=seen) == seen + 1
    assert await other.read(log.head) == 1
    other.close()


async def test_listener_reconnects_and_wakes_waiters(direct, postgres):
    notifier = direct.notifier
    assert isinstance(notifier, PostgresNotifier)
    notifier.listen()
    assert await asyncio.to_thread(notifier.is_listening.wait, 30)
    await until(lambda: notifier.count != 0, "the notice that listening began")
    seen = notifier.count
    postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hostler-listen'")
    assert await notifier.wait(30, since=seen) > seen


def test_a_password_is_never_part_of_a_name_or_an_error(postgres):
    url = "postgresql://hostler:topsecret@127.0.0.1:1/none"
    with pytest.raises(DatabaseUnavailableError) as caught:
        open_database(url)
    assert "topsecret" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite://", "sqlite:///:memory:"])
def test_a_url_of_another_kind_is_refused(url):
    with pytest.raises(InputError) as caught:
        open_database(url)
    assert caught.value.hint
