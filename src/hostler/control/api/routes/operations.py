"""Routes for operations and events."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from hostler.config.entries import means
from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.event_streams import STREAM, stream_of_events, stream_of_news
from hostler.control.api.routes.lists import PageQuery, PastQuery, Short, WaitQuery
from hostler.control.schemas import Event, Operation, Page
from hostler.control.services import events
from hostler.control.services.times import parse_time
from hostler.control.services.vms.vm_views import show_operation
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.rows import operations
from hostler.control.store.rows.operations import OperationFilter, OperationRow
from hostler.errors import InputError

__all__ = ["ROUTES", "read_events"]

ROUTES = Routes("operations")
_LOOK_S = 5.0


class OperationQuery(PageQuery, frozen=True):
    """Filters for the list of operations."""

    project: Annotated[Short, means("Only of this project.")] = ""
    subject: Annotated[Short | None, means("Only about this object, by id.")] = None
    state: Annotated[Literal["pending", "done", "failed"] | None, means("Only in this state.")] = None
    kind: Annotated[Short | None, means("Only of this kind, such as vm.create.")] = None
    newest_first: Annotated[bool, means("Begin with the newest, not with the oldest.")] = False


class EventQuery(PastQuery, frozen=True):
    """Filters for events."""

    project: Annotated[Short, means("Only of this project.")] = ""
    subject: Annotated[Short, means("Only about this object, by id.")] = ""
    host: Annotated[Short, means("Only about this host, by name or id; also one that was deleted. Beats subject.")] = ""
    news: Annotated[bool, means("Of a stream: no events, only the word that something changed.")] = False


@ROUTES.add(
    "GET",
    "/v1/operations",
    "List operations",
    query=OperationQuery,
    answers={200: Page[Operation]},
    permission="operation.read",
)
async def list_operations(call: ApiCall) -> Reply:
    """List operations, oldest first by default."""
    asked = call.ask(OperationQuery)
    project = call.principal.limit_project(asked.project)
    call.principal.check("operation.read", project)
    wanted = OperationFilter(project=project or None, subject=asked.subject, state=asked.state, kind=asked.kind)

    def work(connection: Connection) -> Page[Operation]:
        page = operations.list_page(
            connection, wanted, after=asked.after, limit=asked.limit, is_backwards=asked.newest_first
        )
        return Page(items=[show_operation(row) for row in page.items], next=page.next)

    return Reply(200, await call.read(work))


@ROUTES.add(
    "GET",
    "/v1/operations/{id}",
    "Get an operation, or wait for its end",
    query=WaitQuery,
    answers={200: Operation},
    permission="operation.read",
    refusals=(404,),
)
async def get_operation(call: ApiCall) -> Reply:
    """Get an operation, or wait for its end."""
    end = time.monotonic() + call.ask(WaitQuery).wait
    row = await call.read(lambda connection: _operation(connection, call))
    with call.context.books.watch("vm", row.subject) as news:
        while row.finished_ns is None and (left := end - time.monotonic()) > 0 and not call.context.stopping.is_set():
            row = await call.read(lambda connection: _operation(connection, call))
            if row.finished_ns is None:
                await news.wait(min(left, _LOOK_S))
    return Reply(200, show_operation(row))


def _operation(connection: Connection, call: ApiCall) -> OperationRow:
    row = operations.find(connection, call.part("id"))
    if row is None or call.principal.why_not("operation.read", row.project) is not None:
        raise NotFoundError("this operation does not exist", hint="old ones are removed after a while")
    return row


@ROUTES.add(
    "GET",
    "/v1/events",
    "List or stream events",
    query=EventQuery,
    answers={200: (Page[Event], STREAM)},
    permission="event.read",
    refusals=(404, 410),
    description="With Accept: text/event-stream a stream, each event with its number as id; Last-Event-ID overrides "
    "after and tail. With tail, a message named live follows the past events; its id is the number after which the "
    "stream continues. With news=true the stream has no events, only a message named news at its beginning and after "
    "changes of any kind, at most a few times a second: it is time to read a list again.",
)
async def list_events(call: ApiCall) -> Reply | Response:
    """Return past events once, or stream events until the client disconnects."""
    asked = call.ask(EventQuery)
    is_stream = STREAM in call.request.headers.get("accept", "")
    if asked.news:
        return _news(call, is_stream=is_stream)
    if is_stream:
        asked = _resumed(call, asked)
    found = await call.read(lambda connection: _read(connection, call, asked, asked.after))
    if is_stream:
        later = msgspec.structs.replace(asked, tail=None)
        return stream_of_events(
            call,
            found,
            lambda after: call.read(lambda connection: _read(connection, call, later, after)),
            has_mark=asked.tail is not None,
        )
    return Reply(200, Page(items=found.items, next="" if found.is_last else str(found.after)))


def _news(call: ApiCall, *, is_stream: bool) -> Response:
    call.principal.check("event.read", call.principal.limit_project(""))
    if not is_stream:
        raise InputError("query: news is of a stream", hint=f"send Accept: {STREAM}, or leave news out")
    return stream_of_news(call)


def _resumed(call: ApiCall, asked: EventQuery) -> EventQuery:
    """Return the request of a stream that may have been cut: it continues after its last event."""
    text = call.request.headers.get("last-event-id", "")
    if not text:
        return asked
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InputError("Last-Event-ID: not a number of ours", hint="send the id of the last event")
    return msgspec.structs.replace(asked, after=int(text), tail=None)


def _read(connection: Connection, call: ApiCall, asked: EventQuery, after: int) -> events.Events:
    subject = events.find_host(connection, asked.host, call.caller) if asked.host else asked.subject
    return read_events(connection, call, asked, after, project=asked.project, subject=subject)


def read_events(
    connection: Connection, call: ApiCall, asked: PastQuery, after: int, *, project: str, subject: str
) -> events.Events:
    """Return the events that a query asks for, the last ones or those after a number."""
    since_ns = parse_time("since", asked.since)
    wanted = events.EventFilter(project=project, subject=subject, kinds=tuple(asked.kind), since_ns=since_ns)
    if asked.tail is not None:
        return events.read_last(connection, call.caller, count=asked.tail, wanted=wanted)
    return events.read(connection, call.caller, after=after, limit=asked.limit, wanted=wanted)
