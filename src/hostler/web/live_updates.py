"""The stream that tells open pages when they are old: at most once a second, and only that, never what is new.

Pages then fetch themselves again, as their session, so nothing here needs to know who may see what.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.responses import Response

from hostler.control.access.errors import UnauthenticatedError
from hostler.control.api.requests.open_streams import stream
from hostler.control.books.subscriptions import Subscription
from hostler.web.page_requests import PageRequest
from hostler.web.request_forms import HEADERS

__all__ = ["live_link", "stream_updates"]

_LEAST_S = 1.0  # between two messages
_BEAT_S = 5.0  # between messages that the page is still current, and checks of the session
_NS = 1_000_000_000


def live_link(vm: str = "") -> str:
    """Return the address of the stream for a page about one VM, or about anything."""
    return f"/live?vm={vm}" if vm else "/live"


async def stream_updates(visit: PageRequest) -> Response:
    """Answer with the stream; TooManyStreamsError."""
    headers = {**HEADERS, "X-Accel-Buffering": "no"}
    return stream(visit.context, visit.request, visit.principal.id, lambda: _stream(visit), headers)


async def _stream(visit: PageRequest) -> AsyncIterator[bytes]:
    context, vm = visit.context, visit.query("vm")
    with context.books.watch("vm" if vm else "*", vm) as news:
        yield _event("hello", context.books.seq)
        while not context.stopping.is_set():
            is_new = await _wait(news, context.stopping)
            if context.stopping.is_set():
                return
            if not await _is_good(visit):
                yield _event("over", context.books.seq)  # the page reloads itself and finds the login
                return
            yield _event("news" if is_new else "beat", context.books.seq)
            if is_new:
                await _rest(context.stopping)


async def _wait(news: Subscription, stopping: asyncio.Event) -> bool:
    """Wait for news, for the end of the service, or for the next beat; say whether there is news."""
    waiting = asyncio.ensure_future(news.wait(_BEAT_S))
    ending = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((waiting, ending), return_when=asyncio.FIRST_COMPLETED)
        return waiting.done() and waiting.result()
    finally:
        for task in (waiting, ending):
            task.cancel()
        await asyncio.gather(waiting, ending, return_exceptions=True)


async def _rest(stopping: asyncio.Event) -> None:
    """Tell no more for a while, but not beyond the end of the service."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LEAST_S):
            await stopping.wait()


async def _is_good(visit: PageRequest) -> bool:
    """Say whether the session still counts: it may have ended, or its key may be revoked."""
    try:
        await visit.desk.check_session(visit)
    except UnauthenticatedError:
        return False
    return True


def _event(name: str, seq: int) -> bytes:
    return f"event: {name}\nid: {seq}\ndata: {seq}\n\n".encode()
