"""Changes that depend on the current state: read, edit, and repeat after a version conflict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from hostler.control.client.errors import ServerConflictError

__all__ = ["Versioned", "edit_as_read"]


class Versioned(Protocol):
    """A resource with an ETag."""

    @property
    def version(self) -> int:
        """Return the version of its ETag."""
        ...


T = TypeVar("T", bound=Versioned)

_TRIES = 5


def edit_as_read(read: Callable[[], T], edit: Callable[[T, str], T]) -> T:
    """Read a resource and change it by its version; try again a few times. Raises the last ServerConflictError."""
    for _ in range(_TRIES - 1):
        found = read()
        try:
            return edit(found, f'"{found.version}"')
        except ServerConflictError as error:
            if error.code != "stale_version":
                raise
    found = read()
    return edit(found, f'"{found.version}"')
