"""Hosts as rows: who joined, how large it is, what operators said about it, and the hash of its agent's credential.

A heartbeat writes nothing here; the replica that hears the host updates ``seen_ns`` from time to time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, RowMapping, Select, and_, bindparam, or_, select, update

from hostler.control.store.errors import NameTakenError, NotFoundError
from hostler.control.store.rows.bulk import BulkUpdate, is_among, keys
from hostler.control.store.rows.labels import (
    LabeledRow,
    Labels,
    add_labels,
    columns_of,
    has_labels,
    read_labels,
    with_labels,
    write_labels,
)
from hostler.control.store.rows.versioned_rows import RowPage, change, insert_new, read_page
from hostler.control.store.tables import host_labels, hosts

__all__ = [
    "ClosedRow", "HostCredentialRow", "HostFilter", "HostRow", "all_alive", "closed", "end_old_credential", "find",
    "find_by_credential", "find_by_name", "find_by_names", "find_last_gone", "find_some", "get", "insert",
    "is_agent_elsewhere", "is_buried", "list_credentials", "list_page", "raise_generations", "revoke_credential",
    "save", "set_credential",
]  # fmt: skip

_SECRETS = ("credential_hash", "old_credential_hash", "old_credential_until_ns")
_COLUMNS = [column for column in hosts.c if column.name not in _SECRETS]


_ROLL_NAMES = ("id", "name", "state", "is_draining", "epoch", *_SECRETS)
_ROLL = select(*(hosts.c[name] for name in _ROLL_NAMES)).where(hosts.c.deleted_ns.is_(None))
_CLOSED_NAMES = ("name", "state", "agent", "is_cordoned", "is_draining")
_CLOSED = (
    select(*(hosts.c[name] for name in _CLOSED_NAMES))
    .where(hosts.c.deleted_ns.is_(None))
    .where(or_(hosts.c.state != "ready", hosts.c.is_cordoned, hosts.c.is_draining))
)
_OTHER_OF_AGENT = (
    select(hosts.c.id)
    .where(hosts.c.agent == bindparam("agent"), hosts.c.id != bindparam("host"), hosts.c.deleted_ns.is_(None))
    .limit(1)
)
_FIND = select(*_COLUMNS).where(hosts.c.id == bindparam("id"))
_FIND_SOME = select(*_COLUMNS).where(is_among(hosts.c.id))
_FIND_NAMES = select(*_COLUMNS).where(is_among(hosts.c.name), hosts.c.deleted_ns.is_(None))
_RAISE = BulkUpdate(
    hosts,
    ("id",),
    where=lambda given: (hosts.c.id == given["id"],),
    values=lambda _: {"generation": hosts.c.generation + 1},
)


class HostRow(LabeledRow, frozen=True, kw_only=True):
    """A host. ``body`` is JSON that the store does not read; ``epoch`` is that under which its agent reports."""

    name: str
    state: str = ""
    is_cordoned: bool = False
    is_draining: bool = False
    boot: str = ""
    agent: str = ""
    epoch: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    generation: int = 1
    observed_generation: int = 0
    version: int = 1
    created_ns: int = 0
    updated_ns: int = 0
    seen_ns: int = 0
    deleted_ns: int | None = None
    body: bytes = b"{}"


class HostCredentialRow(NamedTuple):
    """What answering an agent needs to know of its host without a query for each request."""

    id: str
    name: str
    state: str
    is_draining: bool
    epoch: int
    credential_hash: str | None
    old_credential_hash: str | None
    old_credential_until_ns: int


class ClosedRow(NamedTuple):
    """A host that takes no VMs, with the columns that say why; ``agent`` is empty until it registered."""

    name: str
    state: str
    agent: str
    is_cordoned: bool
    is_draining: bool


class HostFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list shows; None means any value."""

    state: str | None = None
    name: str | None = None
    name_part: str | None = None  # what it has in its name, in whatever case
    is_cordoned: bool | None = None
    labels: Labels = ()
    with_deleted: bool = False


def insert(connection: Connection, row: HostRow) -> HostRow:
    """Write a new host; NameTakenError where one of that name exists."""
    if not insert_new(connection, hosts, columns_of(row)):
        hint = "choose another name, let that host rejoin with its credential, or delete it first"
        raise NameTakenError(f"host {row.name} exists already", hint=hint)
    add_labels(connection, host_labels, [row])
    return row


def save(connection: Connection, row: HostRow) -> HostRow:
    """Write all of a host that is still at ``row.version``, its credential apart; returns it with its next version."""
    values = columns_of(row)
    for name in ("id", "name", "version", "created_ns"):
        del values[name]
    version = change(connection, hosts, {"id": row.id}, row.version, values, f"host {row.name}")
    if read_labels(connection, host_labels, [row.id])[row.id] != tuple(sorted(row.labels)):
        write_labels(connection, host_labels, row.id, row.labels)
    return msgspec.structs.replace(row, version=version)


def raise_generations(connection: Connection, identities: Sequence[str]) -> None:
    """Count that the orders of some hosts changed; their row versions stay."""
    _RAISE.run(connection, [{"id": identity} for identity in identities])


def set_credential(connection: Connection, row: HostRow, hashed: str, *, old_until_ns: int = 0) -> HostRow:
    """Give a host a new credential; the one before stays good until a time, so that an agent can change over."""
    before = connection.execute(select(hosts.c.credential_hash).where(hosts.c.id == row.id)).scalar()
    values = {
        "credential_hash": hashed,
        "old_credential_hash": before if old_until_ns else None,
        "old_credential_until_ns": old_until_ns,
    }
    version = change(connection, hosts, {"id": row.id}, row.version, values, f"host {row.name}")
    return msgspec.structs.replace(row, version=version)


def end_old_credential(connection: Connection, identity: str, hashed: str, *, until_ns: int) -> None:
    """Let the credential before the one of that hash end at a time, unless it ends earlier."""
    is_later = hosts.c.old_credential_until_ns > until_ns
    its = update(hosts).where(hosts.c.id == identity, hosts.c.credential_hash == hashed, is_later)
    connection.execute(its.values(old_credential_until_ns=until_ns))


def revoke_credential(connection: Connection, row: HostRow) -> HostRow:
    """Revoke a host's credentials at once."""
    values = {"credential_hash": None, "old_credential_hash": None, "old_credential_until_ns": 0}
    version = change(connection, hosts, {"id": row.id}, row.version, values, f"host {row.name}")
    return msgspec.structs.replace(row, version=version)


def find_by_credential(connection: Connection, hashed: str, now_ns: int) -> HostRow | None:
    """Return the host whose credential has that hash, unless it is deleted."""
    is_old = and_(hosts.c.old_credential_hash == hashed, hosts.c.old_credential_until_ns > now_ns)
    is_its = or_(hosts.c.credential_hash == hashed, is_old)
    found = _rows(connection, select(*_COLUMNS).where(is_its, hosts.c.deleted_ns.is_(None)))
    return found[0] if found else None


def is_buried(connection: Connection, hashed: str) -> bool:
    """Say whether this is the hash of the last credential of a host that was deleted."""
    query = select(hosts.c.id).where(hosts.c.credential_hash == hashed, hosts.c.deleted_ns.is_not(None)).limit(1)
    return connection.execute(query).scalar() is not None


def list_credentials(connection: Connection) -> list[HostCredentialRow]:
    """Return every host that is not deleted, with the hashes of its credentials, in one statement."""
    return [HostCredentialRow(*row) for row in connection.execute(_ROLL)]


def closed(connection: Connection) -> list[ClosedRow]:
    """Return every host whose row says that it takes no VMs; in a healthy fleet these are few."""
    return [ClosedRow(*row) for row in connection.execute(_CLOSED)]


def is_agent_elsewhere(connection: Connection, agent: str, *, host: str) -> bool:
    """Say whether this agent id belongs to another host."""
    return connection.execute(_OTHER_OF_AGENT, {"agent": agent, "host": host}).scalar() is not None


def find(connection: Connection, identity: str) -> HostRow | None:
    """Return a host by its id, deleted or not."""
    row = connection.execute(_FIND, {"id": identity}).mappings().one_or_none()
    return None if row is None else with_labels(connection, host_labels, [_make(row)])[0]


def find_some(connection: Connection, identities: Sequence[str]) -> dict[str, HostRow]:
    """Return those of some hosts that exist, by id, deleted or not, without their labels: not to be saved."""
    return {row["id"]: _make(row) for row in connection.execute(_FIND_SOME, keys(identities)).mappings()}


def get(connection: Connection, identity: str) -> HostRow:
    """Return a host by its id; NotFoundError."""
    found = find(connection, identity)
    if found is None:
        raise NotFoundError.of("host", identity)
    return found


def find_by_name(connection: Connection, name: str) -> HostRow | None:
    """Return the host of that name that is not deleted."""
    found = _rows(connection, select(*_COLUMNS).where(hosts.c.name == name, hosts.c.deleted_ns.is_(None)))
    return found[0] if found else None


def find_last_gone(connection: Connection, name: str) -> HostRow | None:
    """Return the host of that name that was deleted last."""
    gone = select(*_COLUMNS).where(hosts.c.name == name, hosts.c.deleted_ns.is_not(None))
    found = _rows(connection, gone.order_by(hosts.c.deleted_ns.desc()).limit(1))
    return found[0] if found else None


def find_by_names(connection: Connection, names: Sequence[str]) -> dict[str, HostRow]:
    """Return the hosts of some names that are not deleted, without their labels."""
    return {row["name"]: _make(row) for row in connection.execute(_FIND_NAMES, keys(names)).mappings()}


def all_alive(connection: Connection) -> list[HostRow]:
    """Return every host that is not deleted, by name."""
    return _rows(connection, select(*_COLUMNS).where(hosts.c.deleted_ns.is_(None)).order_by(hosts.c.name))


def list_page(connection: Connection, wanted: HostFilter, *, after: str = "", limit: int = 100) -> RowPage[HostRow]:
    """Return hosts, oldest first, a page at a time."""
    query = select(*_COLUMNS)
    for name in ("state", "name", "is_cordoned"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(hosts.c[name] == value)
    if wanted.name_part is not None:
        query = query.where(hosts.c.name.icontains(wanted.name_part, autoescape=True))
    if not wanted.with_deleted:
        query = query.where(hosts.c.deleted_ns.is_(None))
    query = query.where(*has_labels(host_labels, hosts.c.id, wanted.labels))
    page = read_page(connection, query, hosts, _make, after, limit)
    return RowPage(items=with_labels(connection, host_labels, page.items), next=page.next)


def _make(row: RowMapping) -> HostRow:
    return HostRow(**row)


def _rows(connection: Connection, query: Select[Any]) -> list[HostRow]:
    rows = [_make(row) for row in connection.execute(query).mappings()]
    return list(with_labels(connection, host_labels, rows))
