"""Who speaks for which host: ids of agents, which belong to one host at a time whatever replica asks."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from hostler.control.store.tables import hosts

__all__ = ["is_taken"]

_OTHER = (
    select(hosts.c.id)
    .where(hosts.c.agent == bindparam("agent"), hosts.c.id != bindparam("host"), hosts.c.deleted_ns.is_(None))
    .limit(1)
)


def is_taken(connection: Connection, agent: str, *, host: str) -> bool:
    """Say whether this is the id of an agent that speaks for another host than this one."""
    return connection.execute(_OTHER, {"agent": agent, "host": host}).scalar() is not None
