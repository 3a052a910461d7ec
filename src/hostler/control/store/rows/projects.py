"""Projects as rows. The name is the key: it is what VMs, quotas and keys refer to."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, select

from hostler.control.store.errors import NameTakenError, NotFoundError, StillUsedError
from hostler.control.store.rows.versioned_rows import change, insert_new, remove
from hostler.control.store.tables import gangs, projects, quotas, reservations, vms

__all__ = ["ProjectRow", "count", "drop", "find", "get", "insert", "list_after", "save"]

# Made once: making it costs SQLAlchemy more than running it costs the database.
_COUNT = select(func.count()).select_from(projects)
_FIND = select(projects).where(projects.c.name == bindparam("key_name"))


class ProjectRow(msgspec.Struct, frozen=True, kw_only=True):
    """A project; ``body`` is JSON that the store does not read."""

    name: str
    version: int = 1
    created_ns: int = 0
    updated_ns: int = 0
    body: bytes = b"{}"


def insert(connection: Connection, row: ProjectRow) -> ProjectRow:
    """Write a new project; NameTakenError."""
    if not insert_new(connection, projects, msgspec.structs.asdict(row)):
        raise NameTakenError(f"project {row.name} exists already", hint="choose another name")
    return row


def save(connection: Connection, row: ProjectRow) -> ProjectRow:
    """Write a project that is still at ``row.version``; returns it with its next version."""
    values = {"updated_ns": row.updated_ns, "body": row.body}
    version = change(connection, projects, {"name": row.name}, row.version, values, f"project {row.name}")
    return msgspec.structs.replace(row, version=version)


def drop(connection: Connection, row: ProjectRow) -> None:
    """Remove a project that has no VMs, with its gangs, quotas and reservations; StillUsedError."""
    alive = select(vms.c.name).where(vms.c.project == row.name, vms.c.deleted_ns.is_(None)).limit(1)
    found = connection.execute(alive).scalar()
    if found is not None:
        raise StillUsedError(f"project {row.name} has VMs, for example {found}", hint="delete its VMs first")
    connection.execute(delete(vms).where(vms.c.project == row.name))
    for table in (gangs, quotas, reservations):
        connection.execute(delete(table).where(table.c.project == row.name))
    remove(connection, projects, {"name": row.name}, row.version, f"project {row.name}")


def find(connection: Connection, name: str) -> ProjectRow | None:
    """Return a project by its name."""
    row = connection.execute(_FIND, {"key_name": name}).mappings().one_or_none()
    return None if row is None else ProjectRow(**row)


def count(connection: Connection) -> int:
    """Return how many projects there are."""
    return connection.execute(_COUNT).scalar_one()


def get(connection: Connection, name: str) -> ProjectRow:
    """Return a project by its name; NotFoundError."""
    found = find(connection, name)
    if found is None:
        raise NotFoundError.of("project", name)
    return found


def list_after(connection: Connection, name: str = "", limit: int = 100) -> list[ProjectRow]:
    """Return the next projects after a name, by name: the last of a page is the cursor of the next."""
    query = select(projects).where(projects.c.name > name).order_by(projects.c.name).limit(limit)
    return [ProjectRow(**row) for row in connection.execute(query).mappings()]
