"""Hosts that take no VMs, as few columns of few rows: a fleet that is well has none of them."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, or_, select

from hostler.control.store.tables import hosts

__all__ = ["ClosedRow", "closed_hosts"]

_READY = "ready"
_NAMES = ("name", "state", "agent", "is_cordoned", "is_draining")
_CLOSED = (
    select(*(hosts.c[name] for name in _NAMES))
    .where(hosts.c.deleted_ns.is_(None))
    .where(or_(hosts.c.state != _READY, hosts.c.is_cordoned, hosts.c.is_draining))
)


class ClosedRow(NamedTuple):
    """A host that takes no VMs, and by what that can be told; ``agent`` is empty until it registered."""

    name: str
    state: str
    agent: str
    is_cordoned: bool
    is_draining: bool


def closed_hosts(connection: Connection) -> list[ClosedRow]:
    """Return every host that takes no VMs by what its row says."""
    return [ClosedRow(*row) for row in connection.execute(_CLOSED)]
