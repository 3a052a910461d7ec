"""A PostgreSQL server that cannot be reached, or accepts no login: which one, what failed, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from hostler.control.store import open_database
from hostler.control.store.backup.backup import backup
from hostler.control.store.errors import DatabaseUnavailableError
from tests.control.databases import PATIENT
from tests.control.postgres import PostgresServer
from tests.control.store.connection_relay import ConnectionRelay
from tests.ports import silent_port
from tests.wait import wait_until

SECRET = "s3cr3t"
BY = "--database-url or HOSTLER_DATABASE_URL"
KEPT = "HOSTLER_DATABASE_URL or a password file (~/.pgpass)"


def refused(url: str) -> tuple[str, str]:
    """Return what is said of a database that cannot be opened: message and hint, never with the password."""
    with pytest.raises(DatabaseUnavailableError) as caught:
        open_database(url, limits=PATIENT)
    assert SECRET not in caught.value.message + caught.value.hint
    return caught.value.message, caught.value.hint


@contextmanager
def guarded(server: PostgresServer, user: str, how: str) -> Iterator[str]:
    """Let the server have a user whom it lets in in this way, and give the name."""
    file = server.folder / "data" / "pg_hba.conf"
    before = file.read_text()
    server.sql(f"CREATE ROLE {user} LOGIN PASSWORD 'another'")
    try:
        _rule(server, user, file, f"local all {user} {how}\n{before}")
        yield user
    finally:
        file.write_text(before)
        server.sql("SELECT pg_reload_conf()")
        server.sql(f"DROP ROLE {user}")


def _rule(server: PostgresServer, user: str, file: Path, rules: str) -> None:
    """Write rules, and wait until the server goes by them: by those before, it lets everybody in."""
    file.write_text(rules)
    server.sql("SELECT pg_reload_conf()")

    def is_rejected() -> bool:
        try:
            psycopg.connect(server.address("postgres").replace("hostler@", f"{user}@")).close()
        except psycopg.OperationalError:
            return True
        return False

    wait_until(is_rejected, "the server to apply its new rules")


def test_a_port_where_nobody_listens_is_named() -> None:
    with silent_port() as port:
        said = refused(f"postgresql://hostler:{SECRET}@127.0.0.1:{port}/hostler")
    assert said == (f"no PostgreSQL server listens at 127.0.0.1:{port}", f"start it, or name the right one by {BY}")


def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = refused(f"postgresql://hostler:{SECRET}@/hostler?host={tmp_path}")
    assert said == (f"no PostgreSQL server listens at {tmp_path}", f"start it, or name the right one by {BY}")


@pytest.mark.parametrize("url", ["hostler:{0}@nobody.invalid/hostler", "hostler:{0}@/hostler?host=nobody.invalid"])
def test_a_host_that_nobody_knows_is_named(url: str) -> None:
    said = refused(f"postgresql://{url.format(SECRET)}")
    assert said == ("the PostgreSQL host nobody.invalid is unknown", f"check its name in {BY}")


def test_a_wrong_password_and_one_that_lacks_are_told_apart(postgres: PostgresServer) -> None:
    with guarded(postgres, "guarded", "scram-sha-256") as user:
        url = postgres.address("postgres")
        assert refused(url.replace("hostler@", f"{user}:{SECRET}@")) == (
            f"the PostgreSQL server at {postgres.folder} rejects the password of user {user}",
            f"put the right one into {KEPT}",
        )
        assert refused(url.replace("hostler@", f"{user}@")) == (
            f"the PostgreSQL server at {postgres.folder} wants a password of user {user}",
            f"put it into {KEPT}",
        )


def test_user_rejected_by_pg_hba_is_named_with_that_file(
    postgres: PostgresServer,
) -> None:
    with guarded(postgres, "outsider", "reject") as user:
        message, hint = refused(postgres.address("postgres").replace("hostler@", f"{user}:{SECRET}@"))
    assert message.startswith(
        f"the PostgreSQL server at {postgres.folder} does not let user {user} into database postgres "
    )
    assert hint.endswith("let an administrator of the server allow it in pg_hba.conf")


def test_a_server_without_tls_differs_from_one_that_is_not_there(postgres: PostgresServer) -> None:
    relay = ConnectionRelay(postgres.socket)
    try:
        url = f"postgresql://hostler:{SECRET}@127.0.0.1:{relay.port}/postgres?sslmode=require"
        message, hint = refused(url)
    finally:
        relay.close()
    assert message == (
        f"the PostgreSQL server at 127.0.0.1:{relay.port} speaks no TLS, which sslmode in the URL asks for"
    )
    assert "ssl = on" in hint


def test_a_database_that_takes_nobody_now_is_reported_as_the_server_does(postgres: PostgresServer) -> None:
    name = postgres.new_database()
    postgres.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    try:
        message, _ = refused(postgres.address(name))
    finally:
        postgres.drop_database(name)
    assert message.startswith(f"the PostgreSQL server at {postgres.folder} accepts no connections now: ")
    assert f'database "{name}" is not currently accepting connections' in message


def test_a_backup_says_the_same(tmp_path: Path) -> None:
    with silent_port() as port, pytest.raises(DatabaseUnavailableError) as caught:
        backup(f"postgresql://hostler:{SECRET}@127.0.0.1:{port}/hostler", tmp_path / "saved")
    assert caught.value.message == f"no PostgreSQL server listens at 127.0.0.1:{port}"
