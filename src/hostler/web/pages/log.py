"""Events and operations, newest first."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from hostler.control.api.routes.lists import MOST
from hostler.control.schemas import Event, Operation
from hostler.control.services.events import names_of_actors
from hostler.control.services.vms.vm_views import show_operation
from hostler.control.store import Connection
from hostler.control.store.rows import hosts, operations, vms
from hostler.control.store.rows.operations import OperationFilter
from hostler.errors import InputError
from hostler.web.jinja_environment import with_query
from hostler.web.lists import EventPage, list_events_before, project_names
from hostler.web.live_updates import live_link
from hostler.web.page_requests import PageRequest

__all__ = ["show_events", "show_operations"]

_EVENTS = 100
_OPERATIONS = 100
_STATES = ("pending", "done", "failed")


class EventLine(msgspec.Struct, frozen=True):
    """An event with the page of what it is about."""

    seq: int
    at: str
    kind: str
    by: str
    project: str
    text: str
    name: str
    href: str


class _Operations(msgspec.Struct, frozen=True):
    items: list[Operation]
    next: str
    subjects: dict[str, str]
    actors: dict[tuple[str, str], str]
    projects: list[str]


async def show_events(visit: PageRequest) -> Response:
    """Show events."""
    project, subject, before = visit.query("project"), visit.query("subject"), _number(visit.query("before"))
    caller = visit.caller

    def work(connection: Connection) -> tuple[EventPage, list[EventLine], list[str]]:
        looked = list_events_before(connection, caller, before=before, limit=_EVENTS, project=project, subject=subject)
        return looked, _lines(connection, looked.items), project_names(connection, caller)

    looked, lines, projects = await visit.read(work)
    return await visit.render(
        "events.html",
        title="Events",
        twin=with_query("/v1/events", project=project, subject=subject, after=_first(lines), limit=MOST),
        live="" if before else live_link(),
        events=lines,
        with_subject=True,
        before=looked.before,
        project=project,
        projects=projects if len(projects) > 1 else [],
        subject=subject,
        here=visit.here,
    )


async def show_operations(visit: PageRequest) -> Response:
    """Show operations."""
    state, after, caller = visit.query("state"), visit.query("after"), visit.caller
    project = visit.query("project")

    def work(connection: Connection) -> _Operations:
        narrowed = caller.principal.limit_project(project)
        caller.principal.check("operation.read", narrowed)
        wanted = OperationFilter(project=narrowed or None, state=state or None)
        page = operations.list_page(connection, wanted, after=after, limit=_OPERATIONS, is_backwards=True)
        named = vms.find_many(connection, sorted({row.subject for row in page.items if row.kind.startswith("vm.")}))
        names = {row.id: row.name for row in named}
        items = [show_operation(row) for row in page.items]
        actors = names_of_actors(connection, [(one.actor, one.project) for one in items], caller)
        return _Operations(items, page.next, names, actors, project_names(connection, caller))

    found = await visit.read(work)
    return await visit.render(
        "operations.html",
        title="Operations",
        twin=with_query("/v1/operations", project=project, state=state),
        live=live_link(),
        items=found.items,
        subjects=found.subjects,
        actors=found.actors,
        states=_STATES,
        state=state,
        project=project,
        projects=found.projects if len(found.projects) > 1 else [],
        next_link=with_query("/operations", project=project, state=state, after=found.next) if found.next else "",
        first_link=with_query("/operations", project=project, state=state),
        is_first=not after,
        here=visit.here,
    )


def _lines(connection: Connection, found: list[Event]) -> list[EventLine]:
    """Return events with the names and the pages of what they are about."""
    subjects = sorted({event.subject for event in found if event.subject})
    known = {row.id: (row.name, f"/vms/{row.id}") for row in vms.find_many(connection, subjects)}
    for subject in (one for one in subjects if one not in known):
        row = hosts.find(connection, subject)
        if row is not None:
            known[subject] = (row.name, f"/hosts/{row.id}" if row.deleted_ns is None else "")
    return [_line(event, *known.get(event.subject, (event.subject, ""))) for event in found]


def _first(lines: list[EventLine]) -> int | None:
    """Return the number after which REST tells what is on the page: there the oldest come first."""
    return lines[-1].seq - 1 if lines else None


def _line(event: Event, name: str, href: str) -> EventLine:
    return EventLine(event.seq, event.at, event.kind, event.by, event.project, event.text, name, href)


def _number(text: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InputError(f"before: {text[:40]!r} is not a number", hint="follow a link of the page before")
    return int(text)
