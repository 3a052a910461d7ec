"""What is said where the packages of an extra are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hostler.errors import UnavailableError

__all__ = ["needs"]


@contextmanager
def needs(extra: str, command: str) -> Iterator[None]:
    """Import within: a package that is not installed becomes a hint to install the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hostler"):
            raise
        raise UnavailableError(
            f"'hostler {command}' needs the package {error.name}", hint=f"pip install 'hostler[{extra}]'"
        ) from None
