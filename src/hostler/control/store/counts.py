"""How many VMs projects have, in one statement for all of them."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from hostler.control.store.tables import vms

__all__ = ["count_by_project"]

_COUNT = select(vms.c.project, func.count()).where(vms.c.deleted_ns.is_(None)).group_by(vms.c.project)


def count_by_project(connection: Connection, project: str = "") -> dict[str, int]:
    """Return how many VMs each project has that has any, or that one."""
    query = _COUNT.where(vms.c.project == project) if project else _COUNT
    return {str(name): int(number) for name, number in connection.execute(query)}
