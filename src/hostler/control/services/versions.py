"""Whether something is still as the caller has seen it."""

from __future__ import annotations

from hostler.control.store.errors import StaleVersionError

__all__ = ["Versions", "check_version"]

Versions = frozenset[int] | None
"""Those that the caller has seen, one of which must be the current one; None: whatever it is."""


def check_version(what: str, version: int, seen: Versions) -> None:
    """Refuse a change of something that changed since it was read; StaleVersionError."""
    if seen is not None and version not in seen:
        raise StaleVersionError(f"{what} is at version {version}", hint="read it again and decide anew")
