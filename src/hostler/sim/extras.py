"""Errors about missing optional packages."""

from __future__ import annotations

from hostler.errors import UnavailableError

__all__ = ["missing_extra"]


def missing_extra(what: str, package: str, extra: str) -> UnavailableError:
    """Return the error for a feature whose package is not installed."""
    return UnavailableError(f"{what} need the package {package}", hint=f"pip install 'hostler[{extra}]'")
