"""VMs as rows: what users want, what agents report, and lists of them. Used by the API, the leader and agents' orders.

``save`` is for changes of what is wanted and writes everything; ``observe`` is for reports and writes little. A deleted
VM stays as a row without a claim to its name until ``forget_deleted``.
"""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, RowMapping, Select, bindparam, delete, func, select

from hostler.control.store.errors import NameTakenError, NotFoundError
from hostler.control.store.labels import (
    Labelled,
    Labels,
    columns_of,
    has_labels,
    read_labels,
    with_labels,
    write_labels,
)
from hostler.control.store.rows import Page, change, insert_new, read_page
from hostler.control.store.tables import placements, projects, vm_labels, vms

__all__ = [
    "VmFilter", "VmRow", "count", "find", "find_by_name", "forget_deleted", "get", "insert", "list_page", "observe",
    "of_host", "save",
]  # fmt: skip


_FIND_PROJECT = select(projects.c.name).where(projects.c.name == bindparam("name"))


class VmRow(Labelled, frozen=True, kw_only=True):
    """A VM. ``spec`` and ``status`` are JSON that the store does not read."""

    project: str
    name: str
    power: str
    state: str = ""
    host: str = ""
    gang: str = ""
    priority: int = 0
    is_protected: bool = False
    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    generation: int = 1
    observed_generation: int = 0
    restarts: int = 0
    version: int = 1
    created_ns: int = 0
    updated_ns: int = 0
    deleted_ns: int | None = None
    spec: bytes = b"{}"
    status: bytes = b"{}"


class VmFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows; None means whatever. An empty ``host`` is that of VMs which are nowhere."""

    project: str | None = None
    projects: tuple[str, ...] | None = None  # those that the caller may see
    host: str | None = None
    state: str | None = None
    power: str | None = None
    gang: str | None = None
    name: str | None = None
    labels: Labels = ()
    with_deleted: bool = False


def insert(connection: Connection, row: VmRow) -> VmRow:
    """Write a new VM; NameTakenError where one of that name exists, NotFoundError without its project."""
    if connection.execute(_FIND_PROJECT, {"name": row.project}).scalar() is None:
        raise NotFoundError(f"project {row.project} does not exist", hint="create it first, or name another")
    if not insert_new(connection, vms, columns_of(row)):
        hint = "choose another name, or delete the other VM"
        raise NameTakenError(f"project {row.project} has a VM {row.name} already", hint=hint)
    write_labels(connection, vm_labels, row.id, row.labels, is_new=True)
    return row


def save(connection: Connection, row: VmRow) -> VmRow:
    """Write all of a VM that is still at ``row.version``; returns it with its next version."""
    if row.deleted_ns is None:
        taken = select(vms.c.id).where(vms.c.project == row.project, vms.c.name == row.name, vms.c.deleted_ns.is_(None))
        if connection.execute(taken).scalar() not in (None, row.id):
            raise NameTakenError(f"project {row.project} has a VM {row.name} already", hint="choose another name")
    values = columns_of(row)
    for name in ("id", "version", "created_ns"):
        del values[name]
    version = change(connection, vms, {"id": row.id}, row.version, values, f"VM {row.id}")
    if read_labels(connection, vm_labels, [row.id])[row.id] != tuple(sorted(row.labels)):
        write_labels(connection, vm_labels, row.id, row.labels)
    return msgspec.structs.replace(row, version=version)


def observe(
    connection: Connection, row: VmRow, *, state: str, observed_generation: int, status: bytes, now_ns: int
) -> VmRow:
    """Write what was reported of a VM that is still at ``row.version``; returns it with its next version."""
    values = {"state": state, "observed_generation": observed_generation, "status": status, "updated_ns": now_ns}
    version = change(connection, vms, {"id": row.id}, row.version, values, f"VM {row.id}")
    return msgspec.structs.replace(row, **values, version=version)


def find(connection: Connection, identity: str) -> VmRow | None:
    """Return a VM by its id, deleted or not."""
    found = _rows(connection, select(vms).where(vms.c.id == identity))
    return found[0] if found else None


def get(connection: Connection, identity: str) -> VmRow:
    """Return a VM by its id; NotFoundError."""
    found = find(connection, identity)
    if found is None:
        raise NotFoundError(f"VM {identity} does not exist", hint="list what there is")
    return found


def find_by_name(connection: Connection, project: str, name: str) -> VmRow | None:
    """Return the VM of that name that is not deleted."""
    alive = vms.c.deleted_ns.is_(None)
    found = _rows(connection, select(vms).where(vms.c.project == project, vms.c.name == name, alive))
    return found[0] if found else None


def of_host(connection: Connection, host: str) -> list[VmRow]:
    """Return all VMs that are placed on a host or land there, by id: what its agent is ordered to have."""
    here = select(placements.c.vm).where(placements.c.host == host)
    return _rows(connection, select(vms).where(vms.c.id.in_(here)).order_by(vms.c.id))


def list_page(connection: Connection, wanted: VmFilter, *, after: str = "", limit: int = 100) -> Page[VmRow]:
    """Return VMs, oldest first, a page at a time."""
    page = read_page(connection, _filtered(select(vms), wanted), vms, _make, after, limit)
    return Page(items=with_labels(connection, vm_labels, page.items), next=page.next)


def count(connection: Connection, wanted: VmFilter) -> int:
    """Return how many VMs a list would show in all."""
    found: int = connection.execute(_filtered(select(func.count()).select_from(vms), wanted)).scalar_one()
    return found


def forget_deleted(connection: Connection, before_ns: int, *, limit: int = 1000) -> int:
    """Remove rows of VMs that were deleted before a time, oldest first; return how many."""
    old = select(vms.c.id).where(vms.c.deleted_ns < before_ns).order_by(vms.c.deleted_ns).limit(limit)
    return connection.execute(delete(vms).where(vms.c.id.in_(old))).rowcount


def _filtered(query: Select[Any], wanted: VmFilter) -> Select[Any]:
    for name in ("project", "host", "state", "power", "gang", "name"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(vms.c[name] == value)
    if wanted.projects is not None:
        query = query.where(vms.c.project.in_(wanted.projects))
    if not wanted.with_deleted:
        query = query.where(vms.c.deleted_ns.is_(None))
    return query.where(*has_labels(vm_labels, vms.c.id, wanted.labels))


def _make(row: RowMapping) -> VmRow:
    return VmRow(**row)


def _rows(connection: Connection, query: Select[Any]) -> list[VmRow]:
    rows = [_make(row) for row in connection.execute(query).mappings()]
    return list(with_labels(connection, vm_labels, rows))
