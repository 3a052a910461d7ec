"""Routes as data: parameters, responses, permission and handler of each. ``description`` documents them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from starlette.responses import Response

if TYPE_CHECKING:
    from hostler.control.api.requests.call import ApiCall

__all__ = ["Handler", "NoQuery", "Reply", "Route", "Routes"]


class NoQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No query parameters."""


@dataclass(frozen=True)
class Reply:
    """A response: its status, its body (a struct, or nothing), and headers."""

    status: int
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)


Handler = Callable[["ApiCall"], Awaitable[Reply | Response]]
Door = Literal["key", "agent", "none"]


@dataclass(frozen=True, kw_only=True)
class Route:
    """One method on one path.

    ``answers`` has the body for each status (None: nothing; a text: a media type other than JSON). ``refusals`` are
    statuses in addition to those that every route of its kind may return.
    """

    method: str
    path: str
    handler: Handler
    tag: str
    summary: str
    permission: str = ""
    door: Door = "key"
    body: Any = None
    is_body_needed: bool = True
    query: type[msgspec.Struct] = NoQuery
    answers: dict[int, Any] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    is_change: bool = True
    is_repeatable: bool = False  # takes an Idempotency-Key
    has_match: bool = False  # takes If-Match
    has_etag: bool = False
    description: str = ""


class Routes:
    """The routes of one module, in order."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.items: list[Route] = []

    def add(self, method: str, path: str, summary: str, **more: Any) -> Callable[[Handler], Handler]:  # noqa: ANN401
        """Declare the decorated handler as a route. By default a GET changes nothing."""

        def take(handler: Handler) -> Handler:
            more.setdefault("is_change", method not in ("GET", "HEAD"))
            route = Route(method=method, path=path, summary=summary, handler=handler, tag=self.tag, **more)
            self.items.append(route)
            return handler

        return take
