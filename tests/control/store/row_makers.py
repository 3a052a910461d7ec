"""Short functions that make rows for tests."""

from __future__ import annotations

from hostler.control.store import Connection
from hostler.control.store.history.log import Kind, NewEntry
from hostler.control.store.rows import vms
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.vms import VmRow
from hostler.errors import HostlerError

__all__ = ["fact", "host", "insert_vms", "note", "vm"]


def note(body: bytes = b"{}", *, project: str = "", subject: str = "") -> NewEntry:
    return _entry("note", body, project, subject)


def fact(body: bytes = b"{}", *, project: str = "", subject: str = "") -> NewEntry:
    return _entry("fact", body, project, subject)


def vm(name: str, *, number: int = 0, project: str = "shop", **rest) -> VmRow:
    return VmRow(id=f"vm-{project}-{name}-{number}", project=project, name=name, power="running", **rest)


def host(name: str, **rest) -> HostRow:
    return HostRow(id=f"id-of-{name}", name=name, **rest)


def insert_vms(connection: Connection, *rows: VmRow) -> None:
    """Write new VMs, all of them or none: raises what stands for the first that is refused."""
    for outcome in vms.insert_many(connection, rows):
        if isinstance(outcome, HostlerError):
            raise outcome


def _entry(kind: Kind, body: bytes, project: str, subject: str) -> NewEntry:
    return NewEntry(at_ns=1, kind=kind, body=body, actor="test", project=project, subject=subject)
