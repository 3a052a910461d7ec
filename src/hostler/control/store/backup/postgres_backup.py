"""Backup and restore of PostgreSQL: its own tools copy, and this module checks the copy in the same snapshot.

A restore takes the lock that replicas need to migrate at their start, and checks that none runs. The rest is one
transaction: a scratch schema gets our tables and the rows of the dump, all rows are decoded, numbers are renewed,
access is limited, and the new tables replace the old ones.

The location of the database is an argument of ``pg_dump`` and ``pg_restore``, which every user of the machine may see.
The password is passed by the environment, which only this user and root can read.

Invariant: whatever ends a restore before its COMMIT, even a kill or a crash of the server, leaves the old database and
no scratch schema.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import psycopg.sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, inspect, text
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import URL
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError

from hostler.control.store import schema
from hostler.control.store.backends.backend import DatabaseLimits
from hostler.control.store.backends.postgres import SCHEMA_LOCK, PostgresBackend
from hostler.control.store.backup.contents import (
    BackupReport,
    Contents,
    Readers,
    check_bodies,
    check_contents,
    check_no_triggers,
    check_revision,
)
from hostler.control.store.backup.restored_access import (
    AccessChoices,
    AccessReport,
    AccessSnapshot,
    limit_access,
    read_access,
)
from hostler.control.store.backup.restored_numbers import renumber_database
from hostler.control.store.errors import BackupError, DatabaseInUseError, TargetExistsError, translate
from hostler.control.store.files import check_not_of_sqlite, new_file, sync
from hostler.control.store.history import lease
from hostler.control.store.tables import METADATA

__all__ = ["PostgresTools", "backup", "restore", "restore_in_place"]

_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_SECRETS = ("sslpassword",)  # those that libpq takes from no environment
_PATIENT = DatabaseLimits(statement_s=0, lock_s=0, idle_in_transaction_s=0)
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
_RIGHTS = """
SELECT current_schema(), has_database_privilege(current_database(), 'CREATE'), current_database(), current_user
"""
_TRIGGER = re.compile(r"^\d+; \d+ \d+ (?:TRIGGER|RULE|EVENT TRIGGER) (?:\S+ \S+|-) (\S+) ", re.MULTILINE)
# How pg_restore begins and ends the rows of a table.
_COPY = re.compile(rb"COPY (?:[^ .]+\.)?(?P<table>[^ .]+) \((?P<columns>[^)]*)\) FROM stdin;\n")
_END_OF_ROWS = b"\\.\n"
_SWAP_MS = 60_000  # how long to wait for others who read the old tables, such as an open psql
_STOP = "stop all replicas first"


class PostgresTools:
    """The programs for one database."""

    def __init__(self, url: URL) -> None:
        # As SQLAlchemy connects, so that both mean the same database.
        _, options = PGDialect_psycopg().create_connect_args(url)  # type: ignore[no-untyped-call]
        self._password = str(options.pop("password", "") or "")
        for name in _SECRETS:
            if name in options:
                hint = "use a client key that has no pass phrase, readable by its owner only"
                raise BackupError(f"{name} cannot be passed on to PostgreSQL's tools unseen", hint=hint)
        self._where = make_conninfo("", **options)

    def check(self, server: int) -> None:
        """Reject tools that are missing, or older than the server: they could not read its data."""
        for name in ("pg_dump", "pg_restore"):
            found = _VERSION.search(self._run(name, "--version"))
            if found is None or int(found[1]) < server:
                which = f"is of release {found[1]}" if found is not None else "does not say its release"
                hint = f"install those of the server (Debian: postgresql-client-{server}), and put them first in PATH"
                raise BackupError(f"{name} {which}, and the server of release {server}", hint=hint)

    def dump(self, *arguments: str) -> None:
        """Run pg_dump on the database."""
        self._run("pg_dump", "--no-password", *arguments, f"--dbname={self._where}")

    def read(self, *arguments: str) -> str:
        """Run pg_restore on a file alone and return its output."""
        return self._run("pg_restore", *arguments)

    @contextmanager
    def stream(self, *arguments: str) -> Iterator[Iterator[bytes]]:
        """Run pg_restore on a file alone and yield its output line by line; BackupError if it fails."""
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [self._find("pg_restore"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
            try:
                assert process.stdout is not None
                with process.stdout as lines:
                    yield iter(lines)
                    for _ in lines:  # it fails if its output is not read completely
                        pass
            except BaseException:
                process.kill()
                raise
            finally:
                process.wait()
            if process.returncode != 0:
                errors.seek(0)
                raise _failure("pg_restore", process.returncode, errors.read())

    def _run(self, name: str, *arguments: str) -> str:
        program = self._find(name)
        environment = dict(os.environ)
        if self._password:
            environment["PGPASSWORD"] = self._password
        done = subprocess.run(
            [program, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise _failure(name, done.returncode, done.stderr)
        return done.stdout.decode(errors="replace")

    def _find(self, name: str) -> str:
        program = shutil.which(name)
        if program is None:
            hint = "install PostgreSQL's client (Debian: postgresql-client), or use its tools on another machine"
            raise BackupError(f"{name} is not installed, which does this for PostgreSQL", hint=hint)
        return program


def _failure(name: str, code: int, output: bytes) -> BackupError:
    lines = output.decode(errors="replace").strip().splitlines()
    said = lines[0].removeprefix(f"{name}: ").removeprefix("error: ") if lines else f"exit {code}"
    return BackupError(f"{name} failed: {said}", hint="nothing that exists was changed")


def backup(url: URL, target: Path) -> BackupReport:
    """Dump the database to a new file while it is in use; the file appears only when it is complete and checked."""
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


def restore(
    source: Path,
    url: URL,
    *,
    is_forced: bool,
    now_ns: int,
    readers: Readers,
    access: AccessChoices,
    tell: Callable[[str], None],
) -> BackupReport:
    """Load a dump into a database that is not in use, and empty unless forced; renumber it."""
    if not source.is_file():
        raise BackupError(f"{source} does not exist", hint="name a file that a backup made")
    check_not_of_sqlite(source)
    with _opened(url) as backend, backend.writing.connect() as connection:
        tools = PostgresTools(url)
        tools.check(_release(connection))
        revision = check_revision(_revision_of(tools, source), str(source))
        check_no_triggers(_TRIGGER.findall(tools.read("--list", str(source))), str(source))
        _keep_out(connection, backend.name, tell)
        with connection.begin():
            is_there = _check_free(connection, backend.name, is_forced=is_forced)
            home = _home_schema(connection, backend.name)
            replaced = _read_replaced(connection) if is_there else None
            scratch = _make_scratch_schema(connection)
            schema.upgrade(connection, revision)
            _load(connection, tools, source)
            found = _contents(connection, str(source))
            schema.upgrade(connection)
            _check_rows(connection, str(source), readers)
            report = _begin_anew(connection, replaced, access, source.name, now_ns)
            _swap(connection, home, scratch)
    return msgspec.structs.replace(found.report(backend.name, source.stat().st_size), access=report)


def restore_in_place(
    url: URL, *, now_ns: int, readers: Readers, access: AccessChoices, tell: Callable[[str], None]
) -> BackupReport:
    """Check a database that was restored by other means, and renumber it."""
    with _opened(url) as backend, backend.writing.connect() as connection:
        _keep_out(connection, backend.name, tell)
        with connection.begin():
            found = _contents(connection, backend.name)
            _check_unled(connection, backend.name)
            _check_rows(connection, backend.name, readers)
            report = _begin_anew(connection, None, access, "", now_ns)
            size_bytes = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
    return msgspec.structs.replace(found.report(backend.name, size_bytes), access=report)


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
    """Check that there are no triggers, and decode all rows, some at a time."""
    check_no_triggers([str(name) for name in connection.exec_driver_sql(_TRIGGERS).scalars()], where)
    check_bodies(lambda query: connection.execute(text(query).execution_options(yield_per=_AT_ONCE)), where, readers)


def _revision_of(tools: PostgresTools, source: Path) -> str:
    """Read a dump to its end, and return its revision."""
    tools.read(f"--file={os.devnull}", str(source))
    rows = tools.read("--data-only", f"--table={_REVISION}", "--file=-", str(source))
    found = re.search(rf"^COPY [^\n]*\b{_REVISION} [^\n]*\n([^\n\t\\]+)\n\\\.$", rows, re.MULTILINE)
    if found is None:
        raise BackupError(f"{source} is no backup of a control plane", hint="name a file that a backup made")
    return found[1]


def _keep_out(connection: Connection, where: str, tell: Callable[[str], None]) -> None:
    """Keep replicas from starting until this session ends, and check that none runs; wait for a dead leader's lease.

    The sessions of a killed replica end before its lease does.
    """
    with connection.begin():
        if not connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({SCHEMA_LOCK})").scalar_one():
            raise DatabaseInUseError(f"{where} is being started with, or restored", hint=_STOP)
    lease.wait_for_end(lambda: _read_lease(connection), where, tell, hint=_STOP)
    with connection.begin():
        others = connection.exec_driver_sql(_OTHERS).scalar_one()
        if others:
            raise DatabaseInUseError(f"{where} is in use: {others} sessions of Hostler", hint=_STOP)


def _read_lease(connection: Connection) -> lease.LeaderLease:
    """Read the lease without a lock; there is none in a database without our tables."""
    with connection.begin():
        if {"lease", _REVISION} <= set(inspect(connection).get_table_names()):
            return lease.read(connection)
    return lease.LeaderLease(holder="", epoch=0)


def _check_free(connection: Connection, where: str, *, is_forced: bool) -> bool:
    """Reject a database that is not empty: a foreign one always, one of ours unless forced or led. Return which."""
    present = set(inspect(connection).get_table_names())
    ours = present & set(METADATA.tables)
    if present and _REVISION not in present:
        raise schema.foreign_tables(where, present)
    if ours and not is_forced:
        hint = "restore to an empty database, or say that it may be replaced"
        raise TargetExistsError(f"{where} exists and would be replaced", hint=hint)
    if "lease" in ours:
        _check_unled(connection, where)
    return bool(ours)


def _check_unled(connection: Connection, where: str) -> None:
    held = lease.read(connection, is_locking=True)
    if held.is_held:
        raise DatabaseInUseError(f"{where} is in use: {held.holder} leads", hint=_STOP)


def _home_schema(connection: Connection, where: str) -> str:
    """Return the schema of the tables; reject a role that may not create another schema."""
    home, may_create, database, role = connection.exec_driver_sql(_RIGHTS).one()
    if home is None or not may_create:
        quote = connection.dialect.identifier_preparer.quote
        hint = f"as an administrator of the server: GRANT CREATE ON DATABASE {quote(database)} TO {quote(role)}"
        raise BackupError(f"user {role} may not create a schema in {where}; nothing was changed", hint=hint)
    return str(home)


def _read_replaced(connection: Connection) -> AccessSnapshot | None:
    """Return what the replaced database accepts; None if it cannot tell."""
    try:
        with connection.begin_nested():
            return read_access(connection)
    except (SQLAlchemyError, BackupError):
        return None


def _make_scratch_schema(connection: Connection) -> str:
    """Make a schema that only this transaction sees, and put it first on the search path."""
    name = f"hostler_restore_{secrets.token_hex(8)}"
    connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    connection.exec_driver_sql(f"SET LOCAL search_path = {name}")
    return name


def _load(connection: Connection, tools: PostgresTools, source: Path) -> None:
    """Load the rows of a dump into our own empty tables. No other statement of the dump is ever run."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    for table in METADATA.sorted_tables:  # referred rows first
        connection.exec_driver_sql(f"DELETE FROM {table.name}")  # those that a new database begins with
        try:
            with tools.stream("--data-only", f"--table={table.name}", "--file=-", str(source)) as lines:
                _load_table(raw, table.name, lines, source)
        except psycopg.Error as error:
            said = str(error).strip().splitlines()[0]
            hint = "nothing that exists was changed; take another backup"
            raise BackupError(f"table {table.name} of {source} cannot be loaded: {said}", hint=hint) from error


def _load_table(raw: psycopg.Connection[Any], table: str, lines: Iterator[bytes], source: Path) -> None:
    headers = (found for line in lines if (found := _COPY.fullmatch(line)))
    header = next(headers, None)
    if header is None or header["table"].decode().strip('"') != table:
        raise BackupError(f"{source} has no rows of table {table}", hint="name a file that a backup made")
    columns = [psycopg.sql.Identifier(name.strip().strip('"')) for name in header["columns"].decode().split(",")]
    statement = psycopg.sql.SQL("COPY {} ({}) FROM STDIN").format(
        psycopg.sql.Identifier(table), psycopg.sql.SQL(", ").join(columns)
    )
    with raw.cursor() as cursor, cursor.copy(statement) as copy:
        for line in lines:
            if line == _END_OF_ROWS:
                break
            copy.write(line)
        else:
            raise BackupError(f"{source} ends within table {table}", hint="take another backup")
    if next(headers, None) is not None:
        raise BackupError(f"{source} has two tables {table}", hint="name a file that a backup made")


def _begin_anew(
    connection: Connection, replaced: AccessSnapshot | None, access: AccessChoices, source: str, now_ns: int
) -> AccessReport:
    try:
        renumber_database(connection, now_ns // 1_000_000)
        return limit_access(connection, replaced, access, source, now_ns)
    except msgspec.DecodeError as error:
        raise BackupError(f"the backup cannot be renumbered: {error}", hint="take another backup") from error


def _swap(connection: Connection, home: str, scratch: str) -> None:
    """Replace the old tables by the new ones; COMMIT shows all of that or none of it."""
    quote = connection.dialect.identifier_preparer.quote
    names = [*METADATA.tables, _REVISION]
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_SWAP_MS}")
    connection.exec_driver_sql("DROP TABLE IF EXISTS " + ", ".join(f"{quote(home)}.{name}" for name in names))
    for name in names:
        connection.exec_driver_sql(f"ALTER TABLE {scratch}.{name} SET SCHEMA {quote(home)}")
    connection.exec_driver_sql(f"DROP SCHEMA {scratch}")
