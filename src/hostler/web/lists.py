"""What several pages read: VMs a page at a time, events looked back on, names of projects. Over a connection."""

from __future__ import annotations

from typing import get_args

import msgspec

from hostler.control.api.shapes import Event, Vm
from hostler.control.books import ledger
from hostler.control.books.ledger import NEWS
from hostler.control.services import events, projects
from hostler.control.services.callers import Caller
from hostler.control.services.gangs import counting_stopped
from hostler.control.services.lost_vms import find_missing
from hostler.control.services.showing import Gathers, show_vm
from hostler.control.store import Connection, hosts, log, vms
from hostler.control.store.rows import Page
from hostler.control.store.vms import VmFilter
from hostler.control.vms.state import State
from hostler.web.fields import pairs_of

__all__ = ["STATES", "Looked", "VmsAsked", "VmsFound", "list_vms", "look_back", "project_names"]

STATES: tuple[str, ...] = get_args(State)
_MOST_PROJECTS = 500
_LAST = 2**62


class VmsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What the filter of a list says. ``name`` is a part of one."""

    name: str = ""
    project: str = ""
    state: str = ""
    host: str = ""
    label: str = ""

    @property
    def is_filtered(self) -> bool:
        """Say whether it leaves anything out."""
        return self != VmsAsked()


class VmsFound(msgspec.Struct, frozen=True, kw_only=True):
    """A page of VMs, and how many there are in all."""

    items: list[Vm]
    next: str
    count: int


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first, and the number before which to go on; 0 at the beginning."""

    items: list[Event]
    before: int


def list_vms(
    connection: Connection, asked: VmsAsked, caller: Caller, gathers: Gathers, *, after: str, limit: int
) -> VmsFound:
    """Return VMs that the caller may see."""
    project = caller.principal.narrowed(asked.project)
    caller.principal.check("vm.read", project)
    host: str | None = None
    if asked.host:
        row = hosts.find_by_name(connection, asked.host)
        if row is None:
            return VmsFound(items=[], next="", count=0)
        host = row.id
    wanted = VmFilter(
        project=project or None,
        state=asked.state or None,
        host=host,
        name_part=asked.name or None,
        labels=tuple(sorted(pairs_of("label", asked.label).items())),
    )
    page: Page[vms.VmRow] = vms.list_page(connection, wanted, after=after, limit=limit)
    said = counting_stopped(connection, gathers)
    missing = find_missing(connection)
    shown = [show_vm(ledger.stored(row), said, missing=missing) for row in page.items]
    return VmsFound(items=shown, next=page.next, count=vms.count(connection, wanted))


def look_back(
    connection: Connection, caller: Caller, *, before: int = 0, limit: int, project: str = "", subject: str = ""
) -> Looked:
    """Return the events before a number, newest first; all of the newest without one."""
    project = caller.principal.narrowed(project)
    caller.principal.check("event.read", project)
    entries = log.read_before(
        connection,
        before or _LAST,
        limit,
        kinds=("fact", "note"),
        project=project or None,
        subject=subject or None,
        without_subject=NEWS,
    )
    is_full = len(entries) == limit
    shown = events.named(connection, events.show_all(entries[::-1]), caller)[::-1]
    return Looked(items=shown, before=entries[-1].seq if is_full else 0)


def project_names(connection: Connection, caller: Caller) -> list[str]:
    """Return the projects that the caller may choose from."""
    if caller.principal.why_not("project.read", caller.principal.project) is not None:
        return [caller.principal.project] if caller.principal.project else []
    return [one.name for one in projects.list_page(connection, caller, after="", limit=_MOST_PROJECTS).items]
