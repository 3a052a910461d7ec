"""The interface between our code and the network: one request in, one answer out.

A transport carries the calls of one kind of client: calls to API servers of Kubernetes answer with streams
(``kube.api.client``), those of agents with whole bodies (``agent.connection.link``). Each has one implementation
on HTTP and one in memory that can play every fault.

Invariant: the sender says how long it waits; if no answer comes, the transport says whether the server may have acted.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from hostler.errors import UnavailableError

__all__ = ["Request", "Transport", "TransportError"]

Answer_co = TypeVar("Answer_co", covariant=True)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call. ``path`` begins with a slash and carries the query.

    ``credential`` is a bearer token to show; transports that have credentials of their own show those.
    """

    method: str
    path: str
    body: bytes = b""
    content_type: str = "application/json"
    accept: str = "application/json"
    credential: str = ""
    timeout_s: float = 30.0  # until the headers are there, and for the body too unless it is streamed
    is_stream: bool = False  # a watch: the body has no end of its own
    user_agent: str = "hostler"


class Transport(Protocol[Answer_co]):
    """Carries requests."""

    async def send(self, request: Request) -> Answer_co:
        """Send a request and wait for the answer, a streamed one up to its headers; TransportError if none came."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...


class TransportError(UnavailableError):
    """No answer came. ``may_have_acted``: the request may have reached the server, so its outcome is unknown."""

    code = "no_answer"

    def __init__(self, message: str, *, may_have_acted: bool = True, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.may_have_acted = may_have_acted
