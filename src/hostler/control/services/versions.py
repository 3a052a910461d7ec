"""Optimistic locking: a change names the version that the caller has read."""

from __future__ import annotations

from hostler.control.store.errors import StaleVersionError

__all__ = ["Versions", "check_version"]

Versions = frozenset[int] | None
"""The versions that the caller has seen. One of them must be current; None accepts any version."""


def check_version(what: str, version: int, seen: Versions) -> None:
    """Reject a change of an object that changed since it was read; StaleVersionError."""
    if seen is not None and version not in seen:
        raise StaleVersionError(f"{what} is at version {version}", hint="read it again and repeat the change")
