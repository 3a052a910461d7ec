"""Lists of what a project has: an empty one may be that of a project or a host that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hostler.control.client import Client

__all__ = ["check_host", "listed"]

T = TypeVar("T")


def listed(client: Client, project: str, items: Iterable[T]) -> list[T]:
    """Return what a project has; where that is nothing and there is no such project, UnknownThereError."""
    found = list(items)
    if project and not found:
        client.check_project(project)
    return found


def check_host(client: Client, host: str) -> None:
    """Refuse a host that is not there, as far as the key may know; a gang need not be there. UnknownThereError."""
    from hostler.control.client.errors import NotAllowedError

    with suppress(NotAllowedError):
        client.hosts.get(host)
