"""Answers that go on are counted: each keeps a connection and wakes with every change, so nobody gets any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Callable, Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hostler.control.access.errors import TooManyRequestsError

if TYPE_CHECKING:
    from hostler.control.api.context import Context

__all__ = ["STREAM", "Streams", "TooManyStreamsError", "stream"]

STREAM = "text/event-stream"
_RETRY_S = 10


class TooManyStreamsError(TooManyRequestsError):
    """As many streams are open as may be."""

    code = "too_many_streams"


class Streams:
    """How many streams are open, and whose."""

    def __init__(self, *, most_each: int, most: int) -> None:
        self._most_each = most_each
        self._most = most
        self._open: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Return how many are open."""
        return self._open.total()

    def begin(self, principal: str) -> None:
        """Count one more; TooManyStreamsError."""
        if self._open[principal] >= self._most_each:
            message, hint = f"{self._most_each} streams are open for this key", "end one of them first"
            raise TooManyStreamsError(message, retry_after_s=_RETRY_S, hint=hint)
        if self.count >= self._most:
            message, hint = f"{self._most} streams are open, as many as this service may have", "try again later"
            raise TooManyStreamsError(message, retry_after_s=_RETRY_S, hint=hint)
        self._open[principal] += 1

    def end(self, principal: str) -> None:
        """Count one less."""
        self._open[principal] -= 1
        if not self._open[principal]:
            del self._open[principal]


class _Counted(StreamingResponse):
    """A stream that counts from its making until nobody reads it any more."""

    def __init__(self, streams: Streams, principal: str, parts: AsyncIterable[bytes], headers: dict[str, str]) -> None:
        super().__init__(parts, media_type=STREAM, headers=headers)
        streams.begin(principal)
        self._streams, self._principal = streams, principal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.end(self._principal)


def stream(
    context: Context,
    request: Request,
    principal: str,
    parts: Callable[[], AsyncIterable[bytes]],
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with a stream; who asks by HEAD gets what stands before it. TooManyStreamsError."""
    more = dict(headers or {})
    if request.method == "HEAD":
        answer = Response(media_type=STREAM, headers=more)
        del answer.headers["content-length"]  # nobody knows
        return answer
    return _Counted(context.streams, principal, parts(), more)
