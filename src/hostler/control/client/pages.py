"""Lists that come in pages: the next one is fetched when somebody gets there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from hostler.control.api.shapes import Page
from hostler.control.client.wire import Query, Wire

__all__ = ["items"]

T = TypeVar("T")


def items(wire: Wire, path: str, page: type[Page[T]], query: Query | None = None, *, limit: int = 0) -> Iterator[T]:
    """Return what a list holds, one by one; at most ``limit`` where that is not 0."""
    asked: dict[str, Any] = {**(query or {}), "limit": min(limit, wire.page) if limit else wire.page}
    left = limit or -1
    while True:
        answer = wire.read(path, page, asked)
        for item in answer.items:
            yield item
            left -= 1
            if not left:
                return
        if not answer.next:
            return
        asked["after"] = answer.next
