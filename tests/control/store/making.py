"""Rows for tests, short to write."""

from __future__ import annotations

from hostler.control.store.hosts import HostRow
from hostler.control.store.log import Kind, NewEntry
from hostler.control.store.vms import VmRow

__all__ = ["fact", "host", "note", "vm"]


def note(body: bytes = b"{}", *, project: str = "", subject: str = "") -> NewEntry:
    return _entry("note", body, project, subject)


def fact(body: bytes = b"{}", *, project: str = "", subject: str = "") -> NewEntry:
    return _entry("fact", body, project, subject)


def vm(name: str, *, number: int = 0, project: str = "shop", **rest) -> VmRow:
    return VmRow(id=f"vm-{project}-{name}-{number}", project=project, name=name, power="running", **rest)


def host(name: str, **rest) -> HostRow:
    return HostRow(id=f"id-of-{name}", name=name, **rest)


def _entry(kind: Kind, body: bytes, project: str, subject: str) -> NewEntry:
    return NewEntry(at_ns=1, kind=kind, body=body, actor="test", project=project, subject=subject)
