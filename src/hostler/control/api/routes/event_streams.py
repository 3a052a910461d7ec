"""Event streams: events as they happen, or only a message that something changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.responses import Response

from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.endpoint import authenticate
from hostler.control.api.requests.open_streams import STREAM, stream
from hostler.control.books.subscriptions import Subscription
from hostler.control.services.events import Events
from hostler.errors import HostlerError

__all__ = ["STREAM", "stream_of_events", "stream_of_news"]

_LEAST_S = 0.25  # between two messages, because clients read lists after each
_NS = 1_000_000_000
_ENCODER = msgspec.json.Encoder()

Read = Callable[[int], Awaitable[Events]]


def stream_of_events(call: ApiCall, found: Events, read: Read, *, has_mark: bool = False) -> Response:
    """Answer with the given events, then with those that ``read`` returns after a number, as they happen.

    ``has_mark``: a message named live stands between them.
    """
    return stream(call.context, call.request, call.principal.id, lambda: _events(call, found, read, has_mark=has_mark))


def stream_of_news(call: ApiCall) -> Response:
    """Answer with a message at once, and with another one after every change."""
    return stream(call.context, call.request, call.principal.id, lambda: _news(call))


async def _events(call: ApiCall, found: Events, read: Read, *, has_mark: bool) -> AsyncIterator[bytes]:
    """Yield events until the client, its key or the service is gone."""
    door = _KeyCheck(call)
    is_watched = False  # an event between the first read and the watch woke no watcher
    yield b": hostler\n\n"
    with call.context.books.watch("*") as news:
        while not call.context.stopping.is_set():
            for event in found.items:
                yield b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), _ENCODER.encode(event))
            after = found.after
            if has_mark:
                yield b"id: %d\nevent: live\ndata: {}\n\n" % after
                has_mark = False
            if found.is_last:
                await _news_or_end(call, news, door.wait_s if is_watched else 0.0)
                is_watched = True
            if call.context.stopping.is_set():
                return  # without another look at the database, which ends too
            try:
                await door.look()
                if door.is_sign_due():
                    yield b": alive\n\n"
                found = await read(after)
            except HostlerError as error:
                call.context.tell(f"request {call.request_id}: the stream ends: {error.message}")
                return


async def _news(call: ApiCall) -> AsyncIterator[bytes]:
    """Yield a message after changes. The client then reads the lists that it may see."""
    context, door = call.context, _KeyCheck(call)
    is_new = True  # a client that reads a list after the first message misses nothing
    with context.books.watch("*") as news:
        while not context.stopping.is_set():
            if is_new:
                yield b"event: news\ndata: %d\n\n" % context.books.seq
                await _end(call, _LEAST_S)
            is_new = await _news_or_end(call, news, door.wait_s)
            if context.stopping.is_set():
                return
            try:
                await door.look()
                if door.is_sign_due():
                    yield b": alive\n\n"
            except HostlerError as error:
                context.tell(f"request {call.request_id}: the stream ends: {error.message}")
                return


class _KeyCheck:
    """Checks the key of a stream: with every event, every few seconds, and when the key expires."""

    def __init__(self, call: ApiCall) -> None:
        self._call = call
        self._until_ns = call.principal.until_ns
        self._look_s = call.context.settings.stream_look_s
        self._alive_s = call.context.settings.alive_s
        self._sign_at = time.monotonic()

    @property
    def wait_s(self) -> float:
        """Return the time until the next check."""
        wait_s = min(self._alive_s, self._look_s)
        if self._until_ns is None:
            return wait_s
        return min(wait_s, max(0, self._until_ns - self._call.context.clock()) / _NS)

    async def look(self) -> None:
        """Authenticate again; raises if the key is no longer valid."""
        context = self._call.context
        self._until_ns = (await authenticate(context, self._call.request, context.clock())).until_ns

    def is_sign_due(self) -> bool:
        """Return whether a keep-alive comment is due, and restart its timer if it is."""
        is_due = time.monotonic() - self._sign_at >= self._alive_s
        if is_due:
            self._sign_at = time.monotonic()
        return is_due


async def _news_or_end(call: ApiCall, news: Subscription, wait_s: float) -> bool:
    """Wait for a change, or for the end of the service; return whether there was a change."""
    tasks = [asyncio.ensure_future(news.wait(wait_s)), asyncio.ensure_future(call.context.stopping.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].done() and tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _end(call: ApiCall, wait_s: float) -> None:
    """Wait, at most until the end of the service."""
    try:
        async with asyncio.timeout(wait_s):
            await call.context.stopping.wait()
    except TimeoutError:
        return
