"""Operations and events: what is under way, and what happened."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from hostler.config.entries import means
from hostler.control.api.calls import Call
from hostler.control.api.listing import Limit, PageQuery, Query, Short, WaitQuery
from hostler.control.api.routes import Reply, Routes
from hostler.control.api.shapes import Event, Operation, Page
from hostler.control.api.streaming import STREAM, stream_of_events, stream_of_news
from hostler.control.services import events
from hostler.control.services.showing import show_operation
from hostler.control.store import Connection, operations
from hostler.control.store.errors import NotFoundError
from hostler.control.store.operations import OperationFilter, OperationRow
from hostler.errors import InputError

__all__ = ["ROUTES"]

ROUTES = Routes("operations")
_LOOK_S = 5.0


class OperationQuery(PageQuery, frozen=True):
    """Which operations."""

    project: Annotated[Short, means("Only of this project.")] = ""
    subject: Annotated[Short | None, means("Only about this, by id.")] = None
    state: Annotated[Literal["pending", "done", "failed"] | None, means("Only in this state.")] = None
    kind: Annotated[Short | None, means("Only of this kind, such as vm.create.")] = None
    newest_first: Annotated[bool, means("Begin with the newest, not with the oldest.")] = False


class EventQuery(Query, frozen=True):
    """Which events."""

    after: Annotated[int, Meta(ge=0, le=2**63 - 1), means("Those after this number.")] = 0
    limit: Limit = 100
    project: Annotated[Short, means("Only of this project.")] = ""
    subject: Annotated[Short, means("Only about this, by id.")] = ""
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
async def list_operations(call: Call) -> Reply:
    """List operations, oldest first unless asked otherwise."""
    asked = call.ask(OperationQuery)
    project = call.principal.narrowed(asked.project)
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
async def get_operation(call: Call) -> Reply:
    """Get an operation, or wait for its end."""
    end = time.monotonic() + call.ask(WaitQuery).wait
    row = await call.read(lambda connection: _operation(connection, call))
    with call.context.books.watch("vm", row.subject) as news:
        while row.finished_ns is None and (left := end - time.monotonic()) > 0 and not call.context.stopping.is_set():
            row = await call.read(lambda connection: _operation(connection, call))
            if row.finished_ns is None:
                await news.wait(min(left, _LOOK_S))
    return Reply(200, show_operation(row))


def _operation(connection: Connection, call: Call) -> OperationRow:
    row = operations.find(connection, call.part("id"))
    if row is None or call.principal.why_not("operation.read", row.project) is not None:
        raise NotFoundError("this operation does not exist", hint="old ones are removed after a while")
    return row


@ROUTES.add(
    "GET",
    "/v1/events",
    "What happened",
    query=EventQuery,
    answers={200: (Page[Event], STREAM)},
    permission="event.read",
    refusals=(404, 410),
    description="With Accept: text/event-stream a stream that goes on, each event with its number as id; Last-Event-ID "
    "beats after. With news=true the stream has no events, only a message named news at its beginning and, a few times "
    "a second at most, whenever something changed, be it by a report of a host: it is time to read a list again.",
)
async def list_events(call: Call) -> Reply | Response:
    """Return what happened, once or for as long as the caller listens."""
    asked = call.ask(EventQuery)
    is_stream = STREAM in call.request.headers.get("accept", "")
    if asked.news:
        return _news(call, is_stream=is_stream)
    if is_stream:
        asked = msgspec.structs.replace(asked, after=_last_id(call, asked.after))
    found = await call.read(lambda connection: _read(connection, call, asked, asked.after))
    if is_stream:
        return stream_of_events(
            call, found, lambda after: call.read(lambda connection: _read(connection, call, asked, after))
        )
    return Reply(200, Page(items=found.items, next="" if found.is_last else str(found.after)))


def _news(call: Call, *, is_stream: bool) -> Response:
    call.principal.check("event.read", call.principal.narrowed(""))
    if not is_stream:
        raise InputError("query: news is of a stream", hint=f"send Accept: {STREAM}, or leave news out")
    return stream_of_news(call)


def _last_id(call: Call, after: int) -> int:
    text = call.request.headers.get("last-event-id", "")
    if not text:
        return after
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InputError("Last-Event-ID: not a number of ours", hint="send the id of the last event")
    return int(text)


def _read(connection: Connection, call: Call, asked: EventQuery, after: int) -> events.Events:
    subject = events.find_host(connection, asked.host, call.caller) if asked.host else asked.subject
    return events.read(connection, call.caller, after=after, limit=asked.limit, project=asked.project, subject=subject)
