"""Migrates a database to the tables of this program, at every start.

Several replicas may start at once: the first migrates, the others wait and find it done. All steps are one transaction.
A database that a newer program migrated is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hostler.control.store import migrations
from hostler.control.store.backends.backend import Backend
from hostler.control.store.errors import ForeignDatabaseError, NewerDatabaseError, translate

__all__ = ["check_revision", "current_revision", "foreign_tables", "is_known", "migrate", "upgrade"]

_TABLE = "alembic_version"


def migrate(backend: Backend, target: str = "head") -> str:
    """Migrate the database to a revision (default: the newest), and return it."""
    _scripts()  # before the transaction: loading may take seconds on a busy machine, and PostgreSQL ends who idles
    try:
        with backend.writing.connect() as connection, connection.begin():
            backend.lock_schema(connection)
            check_revision(connection, backend.name)
            _move(connection, target)
            return current_revision(connection)
    except SQLAlchemyError as error:
        if isinstance(error, DBAPIError) and "not a database" in str(error.orig):
            hint = "name another file, or restore a backup"
            raise ForeignDatabaseError(f"{backend.name} is not a database", hint=hint) from error
        raise backend.why_unopened(error) or translate(error) from error


def upgrade(connection: Connection, target: str = "head") -> None:
    """Migrate tables that only this transaction uses."""
    _move(connection, target)


def check_revision(connection: Connection, where: str) -> None:
    """Reject a database of a newer program, or one with foreign tables."""
    revision = current_revision(connection)
    if revision and not is_known(revision):
        hint = "use the program that migrated it, or a newer one; or restore a backup that this program made"
        raise NewerDatabaseError(f"{where} is at revision {revision}, which is newer than this program", hint=hint)
    if not revision:
        others = set(inspect(connection).get_table_names()) - {_TABLE}
        if others:
            raise foreign_tables(where, others)


def foreign_tables(where: str, names: Iterable[str]) -> ForeignDatabaseError:
    """Return the error for a database with foreign tables, whatever their names."""
    first, *more = sorted(names)
    shown = f"{first} and {len(more)} more" if more else first
    hint = "give Hostler a database of its own"
    return ForeignDatabaseError(f"{where} holds tables that are not ours: {shown}", hint=hint)


def current_revision(connection: Connection) -> str:
    """Return the revision of a database, empty if it has none."""
    return MigrationContext.configure(connection, opts={"version_table": _TABLE}).get_current_revision() or ""


def is_known(revision: str) -> bool:
    """Say whether this program has that revision."""
    return any(script.revision == revision for script in _scripts().walk_revisions())


def _move(connection: Connection, target: str) -> None:
    scripts = _scripts()
    is_up = target == "head" or not current_revision(connection)

    def steps(revision: Any, _context: MigrationContext) -> Any:  # noqa: ANN401 - alembic's own types are private
        return scripts._upgrade_revs(target, revision) if is_up else scripts._downgrade_revs(target, revision)

    run: Callable[..., Any] = steps
    with EnvironmentContext(Config(), scripts, fn=run, destination_rev=target) as environment:
        # SQLite's DDL is transactional too once BEGIN is ours.
        environment.configure(connection=connection, version_table=_TABLE, transactional_ddl=True)
        environment.run_migrations()


@cache
def _scripts() -> ScriptDirectory:
    """Return the revisions, loaded; they are modules of this package: nothing else needs to be on disk."""
    scripts = ScriptDirectory(str(Path(next(iter(migrations.__path__)))))
    scripts.get_heads()  # loads all of them, once
    return scripts
