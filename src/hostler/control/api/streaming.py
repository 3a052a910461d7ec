"""Answers that go on: events as they happen, or only the word that something changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.responses import Response

from hostler.control.api.calls import Call
from hostler.control.api.serving import authenticate
from hostler.control.api.streams import STREAM, stream
from hostler.control.books.watching import Subscription
from hostler.control.services.events import Events
from hostler.errors import HostlerError

__all__ = ["STREAM", "stream_of_events", "stream_of_news"]

_LEAST_S = 0.25  # between two words that something changed: whoever hears them reads lists
_NS = 1_000_000_000
_ENCODER = msgspec.json.Encoder()

Read = Callable[[int], Awaitable[Events]]


def stream_of_events(call: Call, found: Events, read: Read) -> Response:
    """Answer with the events that were found, and with those that ``read`` gives after a number, as they come."""
    return stream(call.context, call.request, call.principal.id, lambda: _events(call, found, read))


def stream_of_news(call: Call) -> Response:
    """Answer with a message at once, and with another whenever something has changed since the last."""
    return stream(call.context, call.request, call.principal.id, lambda: _news(call))


async def _events(call: Call, found: Events, read: Read) -> AsyncIterator[bytes]:
    """Yield events until the caller, his key or the service has gone."""
    door = _Door(call)
    is_watched = False  # what came between the first look and the watch woke nobody
    yield b": hostler\n\n"
    with call.context.books.watch("*") as news:
        while not call.context.stopping.is_set():
            for event in found.items:
                yield b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), _ENCODER.encode(event))
            after = found.after
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


async def _news(call: Call) -> AsyncIterator[bytes]:
    """Yield the word that something changed; what did, a list says to whom it concerns."""
    context, door = call.context, _Door(call)
    is_new = True  # whoever reads a list after the first word misses nothing
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


class _Door:
    """Looks whether the key of a stream is still good: with all news, every few seconds, and when the key ends."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._until_ns = call.principal.until_ns
        self._look_s = call.context.settings.stream_look_s
        self._alive_s = call.context.settings.alive_s
        self._sign_at = time.monotonic()

    @property
    def wait_s(self) -> float:
        """Return after what time to look again, whatever happens."""
        wait_s = min(self._alive_s, self._look_s)
        if self._until_ns is None:
            return wait_s
        return min(wait_s, max(0, self._until_ns - self._call.context.clock()) / _NS)

    async def look(self) -> None:
        """Look; raise what the door says to a key that is good no more."""
        context = self._call.context
        self._until_ns = (await authenticate(context, self._call.request, context.clock())).until_ns

    def is_sign_due(self) -> bool:
        """Say whether it is time for a sign of life, and count from now on if it is."""
        is_due = time.monotonic() - self._sign_at >= self._alive_s
        if is_due:
            self._sign_at = time.monotonic()
        return is_due


async def _news_or_end(call: Call, news: Subscription, wait_s: float) -> bool:
    """Wait for news, or for the end of the service; say whether there is news."""
    tasks = [asyncio.ensure_future(news.wait(wait_s)), asyncio.ensure_future(call.context.stopping.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].done() and tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _end(call: Call, wait_s: float) -> None:
    """Wait, but not beyond the end of the service."""
    try:
        async with asyncio.timeout(wait_s):
            await call.context.stopping.wait()
    except TimeoutError:
        return
