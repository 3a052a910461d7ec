"""Backup and restore of PostgreSQL: its own tools copy, and we look at what they copied, in the same snapshot.

A restore keeps everybody out by the lock under which replicas bring tables to their revision when they start, and sees
that none runs already. The row that says the revision is written last, with the numbers that begin anew: a restore that
ends half-way leaves tables without a revision, which no replica serves.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError

from hostler.control.store import lease
from hostler.control.store.backup_files import check_not_of_sqlite, new_file, sync
from hostler.control.store.bodies import Readers, check_bodies
from hostler.control.store.contents import BackupReport, Contents, check_contents, check_no_triggers, check_revision
from hostler.control.store.errors import BackupError, DatabaseInUseError, ForeignDatabaseError, translate
from hostler.control.store.limits import Limits
from hostler.control.store.postgres import SCHEMA_LOCK, PostgresBackend
from hostler.control.store.postgres_tools import PostgresTools
from hostler.control.store.renumbering import begin_anew
from hostler.control.store.tables import METADATA

__all__ = ["backup", "restore", "restore_in_place"]

_PATIENT = Limits(statement_s=0, lock_s=0, idle_in_transaction_s=0)
_AT_ONCE = 1000  # rows in memory
_REVISION = "alembic_version"
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND left(application_name, 7) = 'hostler'
"""
_TRIGGERS = """
SELECT tgname FROM pg_trigger JOIN pg_class ON tgrelid = pg_class.oid
WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace
UNION ALL SELECT rulename FROM pg_rules WHERE schemaname = current_schema()
ORDER BY 1
"""
_TRIGGER = re.compile(r"^\d+; \d+ \d+ (?:TRIGGER|RULE|EVENT TRIGGER) (?:\S+ \S+|-) (\S+) ", re.MULTILINE)
_STOP = "stop all replicas first; one that was killed counts for a few seconds more"


def backup(url: URL, target: Path) -> BackupReport:
    """Dump the database to a new file, while others use it; it appears only when it is whole and checked."""
    with new_file(target) as copy, _opened(url) as backend:
        tools = PostgresTools(url)
        with backend.reading.connect() as connection, connection.begin():
            tools.check(_release(connection))
            found = _contents(connection, backend.name)
            snapshot = connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one()
            tools.dump("--format=custom", f"--snapshot={snapshot}", f"--file={copy}")
        if _revision_of(tools, copy) != found.revision:
            raise BackupError(f"the dump of {backend.name} is not what was dumped", hint="try again")
        sync(copy)
        size_bytes = copy.stat().st_size
    return found.report(str(target), size_bytes)


def restore(source: Path, url: URL, *, is_forced: bool, now_ms: int, readers: Readers) -> BackupReport:
    """Load a dump into a database that nobody uses, which must be empty unless forced; its numbers begin anew."""
    if not source.is_file():
        raise BackupError(f"{source} does not exist", hint="name a file that a backup made")
    check_not_of_sqlite(source)
    with _opened(url) as backend, backend.writing.connect() as connection:
        tools = PostgresTools(url)
        tools.check(_release(connection))
        revision = check_revision(_revision_of(tools, source), str(source))
        check_no_triggers(_TRIGGER.findall(tools.read("--list", str(source))), str(source))
        _keep_out(connection, backend.name)
        with connection.begin():
            _check_free(connection, backend.name, is_forced=is_forced)
        _load(tools, source, is_forced=is_forced)
        with connection.begin():
            connection.exec_driver_sql(f"INSERT INTO {_REVISION} VALUES (%s)", (revision,))
            found = _contents(connection, backend.name)
            _check_rows(connection, backend.name, readers)
            _renumber(connection, now_ms)
    return found.report(backend.name, source.stat().st_size)


def restore_in_place(url: URL, *, now_ms: int, readers: Readers) -> BackupReport:
    """Check a database that was restored by other means, and let its numbers begin anew."""
    with _opened(url) as backend, backend.writing.connect() as connection:
        _keep_out(connection, backend.name)
        with connection.begin():
            found = _contents(connection, backend.name)
            _check_unled(connection, backend.name)
            _check_rows(connection, backend.name, readers)
            _renumber(connection, now_ms)
            size_bytes = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
    return found.report(backend.name, size_bytes)


@contextmanager
def _opened(url: URL) -> Iterator[PostgresBackend]:
    backend = PostgresBackend(url, _PATIENT)
    try:
        yield backend
    except SQLAlchemyError as error:
        raise backend.why_unopened(error) or translate(error) from error
    finally:
        backend.close()


def _release(connection: Connection) -> int:
    found = connection.dialect.server_version_info
    return int(found[0]) if found else 0


def _contents(connection: Connection, where: str) -> Contents:
    def first(query: str) -> Sequence[Any]:
        row = connection.exec_driver_sql(query).first()
        if row is None:
            raise BackupError(f"{where} lacks rows that each database of ours has", hint="restore another backup")
        return tuple(row)

    try:
        return check_contents(first, where)
    except ProgrammingError as error:
        hint = "name the database that the service uses"
        raise BackupError(f"{where} holds no control plane", hint=hint) from error


def _check_rows(connection: Connection, where: str, readers: Readers) -> None:
    """See that nothing runs that is not ours, and read all rows, some at a time."""
    check_no_triggers([str(name) for name in connection.exec_driver_sql(_TRIGGERS).scalars()], where)
    check_bodies(lambda query: connection.execute(text(query).execution_options(yield_per=_AT_ONCE)), where, readers)


def _revision_of(tools: PostgresTools, source: Path) -> str:
    """Read a dump to its end, and return the revision that it is of."""
    tools.read(f"--file={os.devnull}", str(source))
    rows = tools.read("--data-only", f"--table={_REVISION}", "--file=-", str(source))
    found = re.search(rf"^COPY [^\n]*\b{_REVISION} [^\n]*\n([^\n\t\\]+)\n\\\.$", rows, re.MULTILINE)
    if found is None:
        raise BackupError(f"{source} is no backup of a control plane", hint="name a file that a backup made")
    return found[1]


def _keep_out(connection: Connection, where: str) -> None:
    """Let no replica start until this session ends, and see that none runs."""
    with connection.begin():
        if not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({SCHEMA_LOCK})").scalar_one():
            raise DatabaseInUseError(f"{where} is being started with, or restored", hint=_STOP)
        others = connection.exec_driver_sql(_OTHERS).scalar_one()
        if others:
            raise DatabaseInUseError(f"{where} is in use: {others} sessions of Hostler", hint=_STOP)


def _check_free(connection: Connection, where: str, *, is_forced: bool) -> None:
    """Refuse a database that is not empty: of somebody else always, of ours unless forced or led by somebody."""
    present = set(inspect(connection).get_table_names())
    ours = present & set(METADATA.tables)
    if ours and _REVISION not in present:
        hint = "give Hostler a database of its own"
        raise ForeignDatabaseError(f"{where} holds tables that are not ours: {', '.join(sorted(ours))}", hint=hint)
    if ours and not is_forced:
        hint = "restore to an empty database, or say that it may be replaced"
        raise BackupError(f"{where} exists and would be replaced", hint=hint)
    if "lease" in ours:
        _check_unled(connection, where)


def _check_unled(connection: Connection, where: str) -> None:
    held = lease.read(connection, is_locking=True)
    if held.is_held:
        raise DatabaseInUseError(f"{where} is in use: {held.holder} leads", hint=_STOP)


def _load(tools: PostgresTools, source: Path, *, is_forced: bool) -> None:
    """Load everything but the revision, in one transaction."""
    entries = tools.read("--list", str(source)).splitlines()
    wanted = [line for line in entries if not re.search(rf" TABLE DATA \S+ {_REVISION} ", line)]
    clean = ("--clean", "--if-exists") if is_forced else ()
    how = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", *clean)
    with tempfile.NamedTemporaryFile("w", prefix="hostler-restore-") as chosen:
        chosen.write("\n".join(wanted) + "\n")
        chosen.flush()
        tools.load(*how, f"--use-list={chosen.name}", str(source))


def _renumber(connection: Connection, now_ms: int) -> None:
    try:
        begin_anew(connection, now_ms)
    except msgspec.DecodeError as error:
        raise BackupError(f"the backup cannot be renumbered: {error}", hint="take another backup") from error
