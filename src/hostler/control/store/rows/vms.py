"""VMs as rows: what users want, what agents report, and lists of them. Used by the API, the leader and agents' orders.

A VM keeps its project and its name for life; all else is written by ``save_many``, and labels by ``set_labels``. A
deleted VM stays as a row without a claim to its name until ``forget_deleted``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    tuple_,
)

from hostler.control.store.errors import NameTakenError, NotFoundError
from hostler.control.store.rows.bulk import BulkUpdate, insert_all, is_among, keys, select_keys_with
from hostler.control.store.rows.labels import (
    LabeledRow,
    Labels,
    add_labels,
    columns_of,
    has_labels,
    with_labels,
    write_labels,
)
from hostler.control.store.rows.versioned_rows import RowPage, Time, check_limit, read_cursor, read_page, write_cursor
from hostler.control.store.tables import placements, projects, vm_labels, vms
from hostler.errors import HostlerError

__all__ = [
    "VmFilter", "VmRow", "count", "count_by_project", "count_by_state", "find", "find_by_name", "find_many",
    "forget_deleted", "insert_many", "list_page", "list_waiting", "of_hosts", "save_many", "set_labels", "under_way",
]  # fmt: skip

_Priority = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_WAITING = "waiting"  # the list of those that wait, as its cursors name it
_AT_WORK = ("creating", "starting", "stopping", "migrating", "resizing", "deleting")
_AT_REST = ("running", "paused", "stopped")
_OF_HOSTS = (
    select(vms).where(vms.c.id.in_(select(placements.c.vm).where(is_among(placements.c.host)))).order_by(vms.c.id)
)
_FIND_SOME = select(vms).where(is_among(vms.c.id)).order_by(vms.c.id)
_VERSIONS = select(vms.c.id, vms.c.version).where(is_among(vms.c.id))
_FIND_PROJECTS = select(projects.c.name).where(is_among(projects.c.name))
_TAKEN = select_keys_with(
    lambda name: select(vms.c.id).where(
        vms.c.project == bindparam("project"), vms.c.name == name, vms.c.deleted_ns.is_(None)
    )
)
_COUNT_BY_PROJECT = select(vms.c.project, func.count()).where(vms.c.deleted_ns.is_(None)).group_by(vms.c.project)
_CHANGING = (
    "power", "state", "host", "gang", "priority", "is_protected", "cpu_millis", "memory_bytes", "disk_bytes",
    "generation", "observed_generation", "restarts", "updated_ns", "deleted_ns", "status",
)  # fmt: skip
_SAVE = BulkUpdate(
    vms,
    ("id", "version", *_CHANGING),
    where=lambda given: (vms.c.id == given["id"], vms.c.version == given["version"]),
    values=lambda given: {name: given[name] for name in _CHANGING} | {"version": given["version"] + 1},
)


class VmRow(LabeledRow, frozen=True, kw_only=True):
    """A VM. ``status`` is JSON that the store does not read; the spec is in it."""

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
    status: bytes = b"{}"


class VmFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows; None means any value. An empty ``host`` means VMs on no host."""

    project: str | None = None
    projects: tuple[str, ...] | None = None  # those that the caller may see
    host: str | None = None
    state: str | None = None
    power: str | None = None
    gang: str | None = None
    name: str | None = None
    name_part: str | None = None  # what it has in its name, in whatever case
    labels: Labels = ()
    with_deleted: bool = False


def insert_many(connection: Connection, rows: Sequence[VmRow]) -> list[VmRow | HostlerError]:
    """Write new VMs; what stands for a row that is not written says why."""
    known = set(connection.execute(_FIND_PROJECTS, keys({row.project for row in rows})).scalars())
    taken = {project: _taken(connection, project, [row.name for row in rows if row.project == project])
             for project in known}  # fmt: skip
    outcomes: list[VmRow | HostlerError] = []
    for row in rows:
        if row.project not in known:
            outcomes.append(NotFoundError.of("project", row.project, hint="create it first, or name another"))
        elif row.name in taken[row.project]:
            hint = "choose another name, or delete the other VM"
            outcomes.append(NameTakenError(f"project {row.project} has a VM {row.name} already", hint=hint))
        else:
            taken[row.project].add(row.name)
            outcomes.append(row)
    new = [row for row in outcomes if isinstance(row, VmRow)]
    if new:
        insert_all(connection, vms, [columns_of(row) for row in new])
        add_labels(connection, vm_labels, new)
    return outcomes


def _taken(connection: Connection, project: str, names: Sequence[str]) -> set[str]:
    return set(connection.execute(_TAKEN, {"project": project, **keys(names)}).scalars())


def save_many(connection: Connection, rows: Sequence[VmRow]) -> int:
    """Write VMs that are still at their versions, names and labels apart; return how many were.

    If some are missing, the transaction must not continue.
    """
    return _SAVE.run(connection, [columns_of(row) for row in rows])


def set_labels(connection: Connection, identity: str, labels: Labels) -> None:
    """Write the labels that lists ask for, beside ``save_many`` in one transaction."""
    write_labels(connection, vm_labels, identity, labels)


def find(connection: Connection, identity: str) -> VmRow | None:
    """Return a VM by its id, deleted or not."""
    found = _rows(connection, select(vms).where(vms.c.id == identity))
    return found[0] if found else None


def find_many(connection: Connection, identities: Sequence[str]) -> list[VmRow]:
    """Return those of some VMs that exist, by id, deleted or not, without their labels."""
    return [_make(row) for row in connection.execute(_FIND_SOME, keys(identities)).mappings()]


def versions_of(connection: Connection, identities: Sequence[str]) -> dict[str, int]:
    """Return the versions of those of some VMs that exist, by id."""
    return {row.id: row.version for row in connection.execute(_VERSIONS, keys(identities))}


def find_by_name(connection: Connection, project: str, name: str) -> VmRow | None:
    """Return the VM of that name that is not deleted."""
    alive = vms.c.deleted_ns.is_(None)
    found = _rows(connection, select(vms).where(vms.c.project == project, vms.c.name == name, alive))
    return found[0] if found else None


def of_hosts(connection: Connection, hosts: Sequence[str]) -> list[VmRow]:
    """Return all VMs that are placed on one of some hosts or land there, by id, without their labels."""
    return [_make(row) for row in connection.execute(_OF_HOSTS, keys(hosts)).mappings()]


def list_page(connection: Connection, wanted: VmFilter, *, after: str = "", limit: int = 100) -> RowPage[VmRow]:
    """Return VMs, oldest first, a page at a time."""
    page = read_page(connection, _filtered(select(vms), wanted), vms, _make, after, limit)
    return RowPage(items=with_labels(connection, vm_labels, page.items), next=page.next)


def list_waiting(connection: Connection, project: str = "", *, after: str = "", limit: int = 100) -> RowPage[VmRow]:
    """Return VMs that wait for a place, of a project or of all, without their labels.

    They come in the order in which the engine looks at them: by priority, then by age.
    """
    check_limit(limit)
    query = select(vms).where(vms.c.state == "pending", vms.c.deleted_ns.is_(None))
    if project:
        query = query.where(vms.c.project == project)
    if after:
        query = query.where(_waits_behind(*read_cursor(after, _WAITING, tuple[_Priority, Time, str])))
    query = query.order_by(vms.c.priority.desc(), vms.c.created_ns, vms.c.id).limit(limit + 1)
    rows = [_make(row) for row in connection.execute(query).mappings()]
    last = rows[limit - 1] if len(rows) > limit else None
    cursor = "" if last is None else write_cursor(_WAITING, last.priority, last.created_ns, last.id)
    return RowPage(items=tuple(rows[:limit]), next=cursor)


def under_way(connection: Connection) -> list[VmRow]:
    """Return VMs with unfinished orders, oldest first, without their labels.

    Not every order shows in the state: a VM that is to be paused runs until it is.
    """
    is_asked = and_(vms.c.state.in_(_AT_REST), vms.c.observed_generation < vms.c.generation)
    query = select(vms).where(vms.c.deleted_ns.is_(None), or_(vms.c.state.in_(_AT_WORK), is_asked))
    return [_make(row) for row in connection.execute(query.order_by(vms.c.created_ns, vms.c.id)).mappings()]


def _waits_behind(priority: int, created_ns: int, identity: str) -> ColumnElement[bool]:
    later = tuple_(vms.c.created_ns, vms.c.id) > tuple_(created_ns, identity)
    return or_(vms.c.priority < priority, and_(vms.c.priority == priority, later))


def count(connection: Connection, wanted: VmFilter) -> int:
    """Return how many VMs a list would show in all."""
    found: int = connection.execute(_filtered(select(func.count()).select_from(vms), wanted)).scalar_one()
    return found


def count_by_state(connection: Connection) -> dict[str, int]:
    """Return how many VMs are in which state, for metrics."""
    query = select(vms.c.state, func.count()).where(vms.c.deleted_ns.is_(None)).group_by(vms.c.state)
    return {str(state): int(number) for state, number in connection.execute(query)}


def count_by_project(connection: Connection, project: str = "") -> dict[str, int]:
    """Return how many VMs each project has that has any, or that one, in one statement."""
    query = _COUNT_BY_PROJECT.where(vms.c.project == project) if project else _COUNT_BY_PROJECT
    return {str(name): int(number) for name, number in connection.execute(query)}


def forget_deleted(connection: Connection, before_ns: int, *, limit: int = 1000) -> int:
    """Remove rows of VMs that were deleted before a time, oldest first; return how many."""
    old = select(vms.c.id).where(vms.c.deleted_ns < before_ns).order_by(vms.c.deleted_ns).limit(limit)
    return connection.execute(delete(vms).where(vms.c.id.in_(old))).rowcount


def _filtered(query: Select[Any], wanted: VmFilter) -> Select[Any]:
    for name in ("project", "host", "state", "power", "gang", "name"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(vms.c[name] == value)
    if wanted.name_part is not None:
        query = query.where(vms.c.name.icontains(wanted.name_part, autoescape=True))
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
