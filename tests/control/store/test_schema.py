"""Migrations make exactly the tables that the program needs, once, whichever replica starts first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from hostler.control.store import migrations, open_database, schema
from hostler.control.store.backends.backend import Backend
from hostler.control.store.database import open_backend
from hostler.control.store.errors import ForeignDatabaseError, NewerDatabaseError
from hostler.control.store.history import log
from hostler.control.store.tables import METADATA
from tests.control.databases import PATIENT


@pytest.fixture
def backend(url: str) -> Iterator[Backend]:
    opened = open_backend(url, PATIENT)
    yield opened
    opened.close()


def newest_revision() -> str:
    """Return the revision that this program needs."""
    return ScriptDirectory(next(iter(migrations.__path__))).get_current_head() or ""


def differences(connection: Connection) -> list[Any]:
    """Return what differs between a database and the tables of this program; nothing after ``migrate``."""
    options = {"compare_type": True, "compare_server_default": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), METADATA))


def looks(connection: Connection) -> dict[str, object]:
    """Return all that a database says of its tables, in an order that does not depend on how they were made."""
    inspector = inspect(connection)
    found: dict[str, object] = {}
    for table in sorted(inspector.get_table_names()):
        if table == "alembic_version":
            continue
        found[table] = (
            [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in inspector.get_columns(table)],
            inspector.get_pk_constraint(table),
            sorted(map(str, inspector.get_foreign_keys(table))),
            sorted(map(str, inspector.get_unique_constraints(table))),
            sorted(map(str, inspector.get_check_constraints(table))),
            sorted((i["name"], i["column_names"], i["unique"], _where(i)) for i in inspector.get_indexes(table)),
        )
    return found


def _where(index) -> str:
    options = index.get("dialect_options", {})
    return " ".join(str(options[name]) for name in sorted(options) if name.endswith("where"))


def test_migrating_gives_the_tables_of_the_program(backend):
    assert schema.migrate(backend) == newest_revision()
    with backend.reading.connect() as connection:
        assert differences(connection) == []
        migrated = looks(connection)
    assert set(migrated) == set(METADATA.tables)
    assert schema.migrate(backend, "base") == ""
    with backend.writing.connect() as connection, connection.begin():
        METADATA.create_all(connection)
        assert looks(connection) == migrated


def test_down_and_up_again(backend):
    schema.migrate(backend)
    assert schema.migrate(backend, "base") == ""
    with backend.reading.connect() as connection:
        assert looks(connection) == {}
    assert schema.migrate(backend) == newest_revision()


def test_migrating_twice_keeps_what_is_there(url):
    first = open_database(url, limits=PATIENT)
    first.submit(lambda c: log.append(c, [log.NewEntry(at_ns=1, kind="note", body=b"x")])).result(30)
    first.close()
    second = open_database(url, limits=PATIENT)
    assert second.read_now(log.head) == 1
    second.close()


def test_a_difference_would_be_noticed(backend):
    schema.migrate(backend)
    with backend.writing.connect() as connection, connection.begin():
        connection.execute(text("DROP INDEX ix_vms_host"))
        connection.execute(text("ALTER TABLE vms ADD COLUMN extra TEXT"))
    with backend.reading.connect() as connection:
        assert len(differences(connection)) == 2


def test_a_database_of_a_newer_program_is_refused_and_left_as_it_is(backend):
    schema.migrate(backend)
    with backend.writing.connect() as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerDatabaseError) as caught:
        schema.migrate(backend)
    assert "9999" in caught.value.message
    assert caught.value.hint
    with backend.reading.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "9999"


@pytest.mark.parametrize("name", ["projects", "of_another_program"])
def test_foreign_tables_are_left_alone(backend, name):
    with backend.writing.connect() as connection, connection.begin():
        connection.execute(text(f"CREATE TABLE {name} (id INTEGER)"))
    with pytest.raises(ForeignDatabaseError, match=f"not ours: {name}$"):
        schema.migrate(backend)
    with backend.reading.connect() as connection:
        assert inspect(connection).get_table_names() == [name]


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, this is not a database. " * 50)
    before = path.read_bytes()
    with pytest.raises(ForeignDatabaseError):
        open_database(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_replicas_that_start_at_once_migrate_once(postgres_url):
    barrier = threading.Barrier(6)
    failures: list[BaseException] = []

    def start() -> None:
        try:
            barrier.wait()
            open_database(postgres_url, limits=PATIENT).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    database = open_database(postgres_url, limits=PATIENT)
    assert database.read_now(log.head) == 0
    database.close()
