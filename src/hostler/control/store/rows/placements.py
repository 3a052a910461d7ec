"""Placements as rows: which host keeps room for which VM. Written by the leader, in one transaction with the log.

A VM has one home and, while it moves, one landing: room is kept at both. ``seq`` is the log entry that decided it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, Select, bindparam, delete, func, select

from hostler.control.store.rows.bulk import insert_all
from hostler.control.store.tables import placements

__all__ = ["PlacementRow", "PlacementTotals", "all_rows", "drop_many", "insert_many", "of_host", "use_by_host"]

_DROP = delete(placements).where(placements.c.vm == bindparam("key_vm"), placements.c.role == bindparam("key_role"))


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


class PlacementTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The room that is reserved on one host in total."""

    host: str
    vms: int
    cpu_millis: int
    memory_bytes: int
    disk_bytes: int


def drop_many(connection: Connection, keys: Sequence[tuple[str, str]]) -> None:
    """Give room back, by VM and role."""
    if keys:
        connection.execute(_DROP, [{"key_vm": vm, "key_role": role} for vm, role in keys])


def insert_many(connection: Connection, rows: Sequence[PlacementRow]) -> None:
    """Keep room for VMs that have no placement of that role and none on that host."""
    insert_all(connection, placements, [msgspec.structs.asdict(row) for row in rows])


def of_host(connection: Connection, host: str) -> list[PlacementRow]:
    """Return all placements on a host, by VM."""
    return _rows(connection, select(placements).where(placements.c.host == host).order_by(placements.c.vm))


def all_rows(connection: Connection) -> list[PlacementRow]:
    """Return all placements, by VM, for checks."""
    return _rows(connection, select(placements).order_by(placements.c.vm, placements.c.role))


def use_by_host(connection: Connection) -> dict[str, PlacementTotals]:
    """Return what is kept on each host that has something."""
    amounts = [func.sum(placements.c[name]) for name in ("cpu_millis", "memory_bytes", "disk_bytes")]
    query = select(placements.c.host, func.count(), *amounts).group_by(placements.c.host)
    found = {}
    for host, vms, cpu, memory, disk in connection.execute(query):
        # PostgreSQL adds big integers up to decimals.
        use = PlacementTotals(host=host, vms=vms, cpu_millis=int(cpu), memory_bytes=int(memory), disk_bytes=int(disk))
        found[host] = use
    return found


def _rows(connection: Connection, query: Select[tuple[object, ...]]) -> list[PlacementRow]:
    return [PlacementRow(**row) for row in connection.execute(query).mappings()]
