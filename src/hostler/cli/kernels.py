"""The compiled kernels of one run: where they are kept, and a word to the user when they must be compiled first.

numba reads the place of its cache when it is imported, so a command opens this before it imports anything that needs
the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hostler.cli.output.terminal import note
from hostler.config import prepare_kernel_cache

__all__ = ["Kernels", "kernels"]

COMPILING = "compiling kernels (once, about 20 seconds) …"


class Kernels:
    """Knows whether kernels will be compiled, and says so once."""

    def __init__(self) -> None:
        self._cache = prepare_kernel_cache()
        self._is_used = False

    def announce(self) -> None:
        """Say that compiling begins, if it does; call this before the first step of an engine."""
        if self._is_used:
            return
        self._is_used = True
        if self._cache.note:
            note(self._cache.note)
        if not self._cache.is_warm:
            note(COMPILING, label="")

    def finish(self) -> None:
        """Remember that the kernels are compiled."""
        if self._is_used and not self._cache.is_warm:
            self._cache.mark_complete()


@contextmanager
def kernels() -> Iterator[Kernels]:
    """Open the kernel cache for one command; a failed one leaves it unmarked."""
    opened = Kernels()
    yield opened
    opened.finish()
