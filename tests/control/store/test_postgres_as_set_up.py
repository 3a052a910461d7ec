"""PostgreSQL as others set it up: defaults of roles and databases change nothing, and what cannot work is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from hostler.control.store import Connection, Database, open_database
from hostler.control.store.backends.postgres import SCHEMA_LOCK
from hostler.control.store.backup.backup import backup, restore, restore_in_place
from hostler.control.store.errors import DatabaseUnavailableError
from hostler.control.store.history import log
from hostler.errors import HostlerError, InputError
from tests.control.databases import PATIENT
from tests.control.postgres import PostgresServer, why_no_postgres
from tests.control.store.row_makers import note
from tests.wait import GIVE_UP_S, wait_until


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    """Give a server that may be stopped and changed."""
    if why_no_postgres():
        pytest.skip(why_no_postgres())
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()


def name_of(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


def refusal_of(url: str) -> HostlerError:
    with pytest.raises(HostlerError) as caught:
        open_database(url, limits=PATIENT)
    return caught.value


def write(database: Database) -> Future[list[int]]:
    return database.submit(lambda connection: log.append(connection, [note()]))


def until_somebody_waits(server: PostgresServer, url: str) -> None:
    """Wait until a session of a database waits for a lock."""
    waits = f"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = '{name_of(url)}'"
    wait_until(lambda: server.sql(waits), "a session that waits for a lock")


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_default_isolation_makes_no_write_fail_that_waits_for_another(postgres, postgres_url, level):
    postgres.sql(f"ALTER DATABASE {name_of(postgres_url)} SET default_transaction_isolation = '{level}'")
    one, two = (open_database(postgres_url, limits=PATIENT) for _ in range(2))
    is_in, may_go = threading.Event(), threading.Event()

    def slowly(connection) -> list[int]:
        is_in.set()
        assert may_go.wait(GIVE_UP_S)
        return log.append(connection, [note()])

    first = one.submit(slowly)
    assert is_in.wait(GIVE_UP_S)
    second = write(two)
    until_somebody_waits(postgres, postgres_url)
    may_go.set()
    assert (first.result(60), second.result(60)) == ([1], [2])
    one.close()
    two.close()


def test_a_default_of_reading_only_keeps_nobody_from_writing(postgres, postgres_url):
    postgres.sql(f"ALTER DATABASE {name_of(postgres_url)} SET default_transaction_read_only = on")
    database = open_database(postgres_url, limits=PATIENT)
    assert write(database).result(60) == [1]
    database.close()


def test_limits_of_a_role_are_not_those_of_our_sessions(postgres, postgres_url):
    for name in ("idle_session_timeout", "statement_timeout", "lock_timeout"):
        postgres.sql(f"ALTER DATABASE {name_of(postgres_url)} SET {name} = '100s'")
    database = open_database(postgres_url, limits=PATIENT)

    def limits(connection: Connection) -> list[str]:
        names = ("idle_session_timeout", "statement_timeout", "lock_timeout")
        return [connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in names]

    assert database.read_now(limits) == database.submit(limits).result(60) == ["0", "5min", "5min"]
    database.close()


def test_a_user_that_may_make_no_tables_is_asked_to_own_the_database(postgres, postgres_url):
    postgres.sql("CREATE ROLE poor LOGIN")
    try:
        refusal = refusal_of(postgres_url.replace("hostler@", "poor@"))
    finally:
        postgres.sql("DROP ROLE poor")
    assert isinstance(refusal, DatabaseUnavailableError)
    assert "permission denied for schema public" in refusal.message
    assert "OWNER TO" in refusal.hint


def test_a_search_path_that_leads_nowhere_is_named(postgres, postgres_url):
    postgres.sql(f"ALTER DATABASE {name_of(postgres_url)} SET search_path = 'nowhere'")
    refusal = refusal_of(postgres_url)
    assert isinstance(refusal, DatabaseUnavailableError)
    assert "search_path" in refusal.hint


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_keep_every_letter_is_refused(postgres, encoding):
    name = f"letters_{os.getpid()}"
    postgres.sql(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        refusal = refusal_of(postgres.address(name))
    finally:
        postgres.drop_database(name)
    assert isinstance(refusal, InputError)
    assert f"{name} keeps texts as {encoding}" in refusal.message
    assert "--encoding UTF8" in refusal.hint


def test_letters_go_through_whatever_a_client_is_set_to(postgres, postgres_url):
    postgres.sql(f"ALTER DATABASE {name_of(postgres_url)} SET client_encoding = 'LATIN1'")
    database = open_database(postgres_url, limits=PATIENT)
    database.submit(lambda connection: log.append(connection, [note(subject="€ 日本")])).result(60)
    assert [entry.subject for entry in database.read_now(lambda c: log.read_after(c, 0, 10))] == ["€ 日本"]
    database.close()


def test_server_restart_during_migration_leaves_no_tables(own):
    url = own.address(own.new_database())
    with ThreadPoolExecutor(1) as pool:
        with closing(psycopg.connect(url)) as other:
            other.execute(f"SELECT pg_advisory_lock({SCHEMA_LOCK})")
            opening = pool.submit(open_database, url, limits=PATIENT)
            until_somebody_waits(own, url)
            own.crash()
        assert isinstance(opening.exception(GIVE_UP_S), DatabaseUnavailableError)
    own.start()
    database = open_database(url, limits=PATIENT)
    assert write(database).result(60) == [1]
    database.close()


def test_a_standby_is_backed_up_and_refuses_everything_else(own, tmp_path):
    url, empty = (own.address(own.new_database()) for _ in range(2))
    open_database(url, limits=PATIENT).close()
    own.become_standby()
    assert backup(url, tmp_path / "copy").seq == 0
    refusals = [refusal_of(url), refusal_of(empty)]
    for restored in (lambda: restore_in_place(url), lambda: restore(Path(tmp_path / "copy"), empty)):
        with pytest.raises(DatabaseUnavailableError) as caught:
            restored()
        refusals.append(caught.value)
    for refusal in refusals:
        assert "its server is a standby" in refusal.message
        assert "target_session_attrs=read-write" in refusal.hint
