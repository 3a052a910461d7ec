"""Limits for event streams: each keeps a connection open and wakes with every change."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Callable, Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hostler.control.access.errors import TooManyRequestsError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.control.api.requests.context import ServiceContext

__all__ = ["STREAM", "Streams", "TooManyStreamsError", "stream"]

STREAM = "text/event-stream"
_RETRY_S = 10
_SHARE = 4  # of all streams, what the keys of one project may have: a quarter
_KEPT = 10  # a tenth is for keys of all projects


class TooManyStreamsError(TooManyRequestsError):
    """The limit of open streams is reached."""

    code = "too_many_streams"


class Streams:
    """Counts open streams by key and by project.

    A project can have any number of keys, so a limit per key alone would let one project use all streams. The keys of
    one project have a share of all streams, and some are reserved for keys of all projects.
    """

    def __init__(self, *, most_each: int, most: int) -> None:
        self._most_each = most_each
        self._most = most
        self._most_of_project = max(1, most // _SHARE)
        self._most_of_projects = max(1, most - most // _KEPT)
        self._open: Counter[str] = Counter()
        self._by_project: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Return the number of open streams."""
        return self._open.total()

    def begin(self, principal: str, project: str) -> None:
        """Count one more; an empty project means a key of all projects. TooManyStreamsError."""
        if self._open[principal] >= self._most_each:
            raise _too_many(f"{_open(self._most_each)} for this key", "close one of them first")
        if project and self._by_project[project] >= self._most_of_project:
            raise _too_many(f"{_open(self._most_of_project)} for project {project}", "close one of them first")
        of_projects = self.count - self._by_project[""]
        if self.count >= self._most or (project and of_projects >= self._most_of_projects):
            raise _too_many(f"{_open(self.count)}, which is the limit of this service", "try again later")
        self._open[principal] += 1
        self._by_project[project] += 1

    def end(self, principal: str, project: str) -> None:
        """Count one less."""
        for counter, name in ((self._open, principal), (self._by_project, project)):
            counter[name] -= 1
            if not counter[name]:
                del counter[name]


def _too_many(message: str, hint: str) -> TooManyStreamsError:
    return TooManyStreamsError(message, retry_after_s=_RETRY_S, hint=hint)


class _CountedResponse(StreamingResponse):
    """A stream that counts from its creation until its client is gone."""

    def __init__(
        self, streams: Streams, whose: tuple[str, str], parts: AsyncIterable[bytes], headers: dict[str, str]
    ) -> None:
        super().__init__(parts, media_type=STREAM, headers=headers)
        streams.begin(*whose)
        self._streams, self._whose = streams, whose

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.end(*self._whose)


def stream(
    context: ServiceContext,
    request: Request,
    principal: str,
    parts: Callable[[], AsyncIterable[bytes]],
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answer with a stream, or with its headers only for HEAD. TooManyStreamsError."""
    more = dict(headers or {})
    if request.method == "HEAD":
        answer = Response(media_type=STREAM, headers=more)
        del answer.headers["content-length"]  # unknown for a stream
        return answer
    whose = (principal, context.authenticator.project_of(principal))
    return _CountedResponse(context.streams, whose, parts(), more)


def _open(count: int) -> str:
    return f"{plural(count, 'stream')} {'is' if count == 1 else 'are'} open"
