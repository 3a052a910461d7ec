"""Lists that come in pages: the next one is fetched when somebody gets there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from hostler.control.api.shapes import Page
from hostler.control.client.errors import AnswerError
from hostler.control.client.wire import Query, Wire

__all__ = ["items"]

T = TypeVar("T")

_MOST_EMPTY = 250  # pages in a row: what a filter leaves out may fill some


def items(wire: Wire, path: str, page: type[Page[T]], query: Query | None = None, *, limit: int = 0) -> Iterator[T]:
    """Return what a list holds, one by one; at most ``limit`` where that is not 0."""
    asked: dict[str, Any] = {**(query or {}), "limit": min(limit, wire.page) if limit else wire.page}
    left = limit or -1
    seen: set[str] = set()
    empty = 0
    while True:
        answer = wire.read(path, page, asked)
        empty = 0 if answer.items else empty + 1
        for item in answer.items:
            yield item
            left -= 1
            if not left:
                return
        if not answer.next:
            return
        if answer.next in seen or empty > _MOST_EMPTY:
            raise AnswerError(
                f"the server's list of {path} does not end", hint="is this the address of a control plane?"
            )
        seen.add(answer.next)
        asked["after"] = answer.next
