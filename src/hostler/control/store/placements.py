"""Placements as rows: which host keeps room for which VM. Written by the leader, in one transaction with the log.

A VM has one home and, while it moves, one landing: room is kept at both. ``seq`` is the log entry that decided it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, Select, bindparam, delete, func, select
from sqlalchemy import insert as sql_insert

from hostler.control.store.errors import NameTakenError
from hostler.control.store.rows import change, insert_new, remove
from hostler.control.store.tables import placements

__all__ = [
    "HostUse",
    "PlacementRow",
    "all_rows",
    "drop",
    "drop_all",
    "drop_many",
    "insert",
    "insert_many",
    "of_host",
    "of_vm",
    "save",
    "use_by_host",
]


_DROP = delete(placements).where(placements.c.vm == bindparam("key_vm"), placements.c.role == bindparam("key_role"))
_INSERT = sql_insert(placements)


class PlacementRow(msgspec.Struct, frozen=True, kw_only=True):
    """Room for a VM on a host; ``role`` is ``home`` or ``landing``."""

    vm: str
    host: str
    role: str = "home"
    generation: int = 0
    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0
    seq: int = 0
    at_ns: int = 0
    version: int = 1
    body: bytes = b"{}"


class HostUse(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept on one host in all."""

    host: str
    vms: int
    cpu_millis: int
    memory_bytes: int
    disk_bytes: int


def insert(connection: Connection, row: PlacementRow) -> PlacementRow:
    """Keep room; NameTakenError if the VM has a placement of that role, or any on that host."""
    if not insert_new(connection, placements, msgspec.structs.asdict(row)):
        raise NameTakenError(f"VM {row.vm} has a {row.role} already, or is on host {row.host}", hint="read it again")
    return row


def save(connection: Connection, row: PlacementRow) -> PlacementRow:
    """Write a placement that is still at ``row.version``; returns it with its next version."""
    values = msgspec.structs.asdict(row)
    for name in ("vm", "role", "version"):
        del values[name]
    key = {"vm": row.vm, "role": row.role}
    version = change(connection, placements, key, row.version, values, f"the {row.role} of VM {row.vm}")
    return msgspec.structs.replace(row, version=version)


def drop(connection: Connection, row: PlacementRow) -> None:
    """Give the room back, if the placement is still at ``row.version``."""
    key = {"vm": row.vm, "role": row.role}
    remove(connection, placements, key, row.version, f"the {row.role} of VM {row.vm}")


def drop_all(connection: Connection, vm: str) -> int:
    """Give back all room of a VM; return how many placements it had."""
    return connection.execute(delete(placements).where(placements.c.vm == vm)).rowcount


def drop_many(connection: Connection, keys: Sequence[tuple[str, str]]) -> None:
    """Give room back, by VM and role."""
    if keys:
        connection.execute(_DROP, [{"key_vm": vm, "key_role": role} for vm, role in keys])


def insert_many(connection: Connection, rows: Sequence[PlacementRow]) -> None:
    """Keep room for VMs that have no placement of that role and none on that host."""
    if rows:
        connection.execute(_INSERT, [msgspec.structs.asdict(row) for row in rows])


def of_vm(connection: Connection, vm: str) -> list[PlacementRow]:
    """Return home and landing of a VM, where they exist."""
    return _rows(connection, select(placements).where(placements.c.vm == vm).order_by(placements.c.role))


def of_host(connection: Connection, host: str) -> list[PlacementRow]:
    """Return all placements on a host, by VM."""
    return _rows(connection, select(placements).where(placements.c.host == host).order_by(placements.c.vm))


def all_rows(connection: Connection) -> list[PlacementRow]:
    """Return all placements, by VM: the books, for whoever checks them."""
    return _rows(connection, select(placements).order_by(placements.c.vm, placements.c.role))


def use_by_host(connection: Connection) -> dict[str, HostUse]:
    """Return what is kept on each host that has something."""
    amounts = [func.sum(placements.c[name]) for name in ("cpu_millis", "memory_bytes", "disk_bytes")]
    query = select(placements.c.host, func.count(), *amounts).group_by(placements.c.host)
    found = {}
    for host, vms, cpu, memory, disk in connection.execute(query):
        # PostgreSQL adds big integers up to decimals.
        use = HostUse(host=host, vms=vms, cpu_millis=int(cpu), memory_bytes=int(memory), disk_bytes=int(disk))
        found[host] = use
    return found


def _rows(connection: Connection, query: Select[tuple[object, ...]]) -> list[PlacementRow]:
    return [PlacementRow(**row) for row in connection.execute(query).mappings()]
