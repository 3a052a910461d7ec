"""The seam between an agent and the network: one request in, one answer out. ``http`` is one side of it, tests another.

Whoever sends says how long he waits and shows the credential; so one transport can carry the calls of a whole fleet.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from hostler.errors import UnavailableError

__all__ = ["Request", "Response", "Transport", "TransportError"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call. ``path`` begins with a slash and carries the query."""

    method: str
    path: str
    body: bytes = b""
    credential: str = ""
    timeout_s: float = 10.0


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, read to its end. ``retry_after_s``: how long the server asked to be left alone."""

    status: int
    body: bytes = b""
    retry_after_s: float = 0.0


class Transport(Protocol):
    """Carries requests."""

    async def send(self, request: Request) -> Response:
        """Send a request and wait for the whole answer; raise TransportError where none came."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...


class TransportError(UnavailableError):
    """No answer came; the request may have been carried out or not."""

    code = "no_answer"
