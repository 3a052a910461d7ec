"""What is said where the packages of the extra ``kube`` are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hostler.errors import UnavailableError

__all__ = ["needs_kube"]


@contextmanager
def needs_kube() -> Iterator[None]:
    """Import within: a package that is not installed becomes a hint to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hostler"):
            raise
        raise UnavailableError(
            f"the commands of 'hostler kube' need the package {error.name}", hint="pip install 'hostler[kube]'"
        ) from None
