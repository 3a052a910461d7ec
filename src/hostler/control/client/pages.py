"""Paged lists: the next page is fetched when it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from hostler.control.client.errors import AnswerError
from hostler.control.client.wire import Query, Wire
from hostler.control.schemas import Page

__all__ = ["list_items"]

T = TypeVar("T")

_MOST_EMPTY = 250  # pages in a row: what a filter leaves out may fill some


def list_items(
    wire: Wire, path: str, page: type[Page[T]], query: Query | None = None, *, limit: int = 0
) -> Iterator[T]:
    """Yield the items of a list; at most ``limit`` unless that is 0."""
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
