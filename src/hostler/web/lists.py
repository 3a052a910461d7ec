"""What several pages read: VMs a page at a time, events looked back on, names of projects. Over a connection."""

from __future__ import annotations

from typing import get_args

import msgspec

from hostler.control.books import ledger
from hostler.control.books.ledger import NEWS
from hostler.control.schemas import Event, Vm
from hostler.control.services import events
from hostler.control.services.callers import Caller
from hostler.control.services.tenancy import projects
from hostler.control.services.vms.gangs import with_stopped_members
from hostler.control.services.vms.lost_vms import find_missing
from hostler.control.services.vms.vm_views import Gathers, show_vm
from hostler.control.store import Connection
from hostler.control.store.history import log
from hostler.control.store.rows import hosts, vms
from hostler.control.store.rows.versioned_rows import RowPage
from hostler.control.store.rows.vms import VmFilter
from hostler.control.vms.state import State
from hostler.web.request_forms import pairs_of

__all__ = ["STATES", "EventPage", "VmListFilter", "VmListPage", "list_events_before", "list_vms", "project_names"]

STATES: tuple[str, ...] = get_args(State)
_MOST_PROJECTS = 500
_LAST = 2**62


class VmListFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of a list of VMs. ``name`` may be a part of a name."""

    name: str = ""
    project: str = ""
    state: str = ""
    host: str = ""
    label: str = ""

    @property
    def is_filtered(self) -> bool:
        """Say whether it leaves anything out."""
        return self != VmListFilter()


class VmListPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of VMs, and how many there are in all."""

    items: list[Vm]
    next: str
    count: int


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first, and the number before which to continue; 0 at the beginning."""

    items: list[Event]
    before: int


def list_vms(
    connection: Connection, asked: VmListFilter, caller: Caller, gathers: Gathers, *, after: str, limit: int
) -> VmListPage:
    """Return VMs that the caller may see."""
    project = caller.principal.limit_project(asked.project)
    caller.principal.check("vm.read", project)
    host: str | None = None
    if asked.host:
        row = hosts.find_by_name(connection, asked.host)
        if row is None:
            return VmListPage(items=[], next="", count=0)
        host = row.id
    wanted = VmFilter(
        project=project or None,
        state=asked.state or None,
        host=host,
        name_part=asked.name or None,
        labels=tuple(sorted(pairs_of("label", asked.label).items())),
    )
    page: RowPage[vms.VmRow] = vms.list_page(connection, wanted, after=after, limit=limit)
    said = with_stopped_members(connection, gathers)
    missing = find_missing(connection)
    shown = [show_vm(ledger.read_row(row), said, missing=missing) for row in page.items]
    return VmListPage(items=shown, next=page.next, count=vms.count(connection, wanted))


def list_events_before(
    connection: Connection, caller: Caller, *, before: int = 0, limit: int, project: str = "", subject: str = ""
) -> EventPage:
    """Return the events before a number, newest first; all of the newest without one."""
    project = caller.principal.limit_project(project)
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
    shown = events.with_names(connection, events.show_all(entries[::-1]), caller)[::-1]
    return EventPage(items=shown, before=entries[-1].seq if is_full else 0)


def project_names(connection: Connection, caller: Caller) -> list[str]:
    """Return the projects that the caller may choose from."""
    if caller.principal.why_not("project.read", caller.principal.project) is not None:
        return [caller.principal.project] if caller.principal.project else []
    return [one.name for one in projects.list_page(connection, caller, after="", limit=_MOST_PROJECTS).items]
