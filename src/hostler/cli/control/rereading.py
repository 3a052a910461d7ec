"""Changes that are worked out from what is there: read, change, and read again where somebody was faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Versioned", "edit_as_read"]


class Versioned(Protocol):
    """What has an ETag."""

    @property
    def version(self) -> int:
        """Return what its ETag says."""
        ...


T = TypeVar("T", bound=Versioned)

_TRIES = 5


def edit_as_read(read: Callable[[], T], edit: Callable[[T, str], T]) -> T:
    """Read something and change it by its version, a few times; the last refusal is told."""
    from hostler.control.client.errors import RefusedConflictError

    for _ in range(_TRIES - 1):
        found = read()
        try:
            return edit(found, f'"{found.version}"')
        except RefusedConflictError as error:
            if error.code != "stale_version":
                raise
    found = read()
    return edit(found, f'"{found.version}"')
