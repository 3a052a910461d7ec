"""The seam between our code and the network: one request in; a status, headers and a stream of bytes out.

Two implementations: ``http`` speaks to real API servers, ``hostler.kube.memory`` is one in memory that can play
every fault. Whoever sends says how long he waits; whoever carries says, when it fails, whether the server
may have acted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import msgspec

from hostler.errors import UnavailableError

__all__ = ["Request", "Response", "Transport", "TransportError"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call. ``path`` begins with a slash and carries the query; credentials are the transport's business."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"
    timeout_s: float = 30.0  # until the headers are there, and for the body too unless it is streamed
    is_stream: bool = False  # a watch: the body has no end of its own
    user_agent: str = "hostler"


class Response(Protocol):
    """An answer; whoever gets one reads it to the end or closes it."""

    status: int

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers; names in small letters."""
        ...

    async def read(self) -> bytes:
        """Return the whole body."""
        ...

    def line_batches(self) -> AsyncIterator[list[bytes]]:
        """Iterate over a stream: the lines, without line ends, that each received piece completed; never none.

        Empty lines are left out. A last line without a line end is torn and raises TransportError.
        """
        ...

    async def close(self) -> None:
        """Give the connection back, or end it where the body was not read."""
        ...


class Transport(Protocol):
    """Carries requests."""

    async def send(self, request: Request) -> Response:
        """Send a request and wait for the answer's headers; raise TransportError where none came."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...


class TransportError(UnavailableError):
    """No answer came. ``may_have_acted``: the request may have reached the server, so its outcome is unknown."""

    code = "no_answer"

    def __init__(self, message: str, *, may_have_acted: bool, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.may_have_acted = may_have_acted
