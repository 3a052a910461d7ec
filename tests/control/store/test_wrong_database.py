"""Missing or wrong databases: the error says what to type."""

from __future__ import annotations

import shutil

import pytest

from hostler.control.store import open_database
from hostler.control.store.backup.backup import backup, restore
from hostler.control.store.database import database_url
from hostler.control.store.errors import BackupError, DatabaseUnavailableError
from hostler.errors import InputError
from tests.control.databases import PATIENT
from tests.control.postgres import PostgresServer

HAS_TOOLS = shutil.which("pg_dump") is not None and shutil.which("pg_restore") is not None


def refused(url: str) -> DatabaseUnavailableError:
    with pytest.raises(DatabaseUnavailableError) as caught:
        open_database(url, limits=PATIENT)
    return caught.value


def test_missing_database_is_named_with_command_to_create_it(postgres: PostgresServer):
    error = refused(postgres.address("no such"))
    assert error.message == f"the PostgreSQL server at {postgres.folder} has no database no such"
    command = f"createdb -h {postgres.folder} -p 5432 -O hostler 'no such'"
    assert error.hint == f"as an administrator of the server: {command}"


def test_unknown_user_is_named_with_command_to_create_it(postgres: PostgresServer):
    error = refused(postgres.address("postgres").replace("hostler@", "stranger@"))
    assert error.message == f"the PostgreSQL server at {postgres.folder} knows no user stranger"
    command = f"createuser -h {postgres.folder} -p 5432 stranger"
    assert error.hint == f"as an administrator of the server: {command}"


@pytest.mark.skipif(not HAS_TOOLS, reason="pg_dump and pg_restore are not there")
def test_a_dump_of_postgresql_is_not_taken_for_a_damaged_backup_of_sqlite(postgres_url, sqlite_url, tmp_path):
    open_database(postgres_url, limits=PATIENT).close()
    dump = tmp_path / "nightly.dump"
    backup(postgres_url, dump)
    with pytest.raises(BackupError) as caught:
        restore(dump, sqlite_url)
    assert caught.value.message == f"{dump} is a dump of PostgreSQL, and the database is SQLite"
    assert "--database-url postgresql://" in caught.value.hint


def test_a_backup_of_sqlite_is_not_given_to_postgresql(sqlite_url, tmp_path):
    open_database(sqlite_url, limits=PATIENT).close()
    saved = tmp_path / "saved"
    backup(sqlite_url, saved)
    with pytest.raises(BackupError) as caught:
        restore(saved, "postgresql://hostler@127.0.0.1:1/hostler")
    assert caught.value.message == f"{saved} is a backup of SQLite, and the database is PostgreSQL"
    assert "sqlite:////" in caught.value.hint


@pytest.mark.parametrize(
    ("port", "said"),
    [("port", "is not a number"), ("", "is not a number"), ("12a", "is not a number"), ("1,db2:2", "is not a number"),
     ("0", "cannot be 0"), ("-1", "cannot be -1"), ("65536", "cannot be 65536")],
)  # fmt: skip
def test_a_port_that_is_none_is_refused_without_the_password(port, said):
    with pytest.raises(InputError) as caught:
        database_url(f"postgresql://hostler:s3cr3t@db:{port}/hostler")
    assert caught.value.message == f"the port in the database URL {said}"
    assert "postgresql://user@host:5432/database" in caught.value.hint
    assert caught.value.__cause__ is None
    assert "s3cr3t" not in caught.value.message + caught.value.hint


def test_ports_that_are_some_are_kept():
    assert database_url("postgresql://hostler@db:65535/hostler").port == 65535
    assert database_url("postgresql://hostler@db/hostler").port is None
