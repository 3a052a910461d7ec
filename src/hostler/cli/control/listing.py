"""Lists of what a project has: an empty one may be that of a project that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hostler.control.client import Client

__all__ = ["listed"]

T = TypeVar("T")


def listed(client: Client, project: str, items: Iterable[T]) -> list[T]:
    """Return what a project has; where that is nothing and there is no such project, UnknownThereError."""
    found = list(items)
    if project and not found:
        client.check_project(project)
    return found
