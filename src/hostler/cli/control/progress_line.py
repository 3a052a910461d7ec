"""What goes on while a command waits: a line of a terminal that is written over, and lines that stay."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from hostler.cli.terminal import note, printable

__all__ = ["Progress", "progress_line", "said_when_interrupted"]

_CLEAR = "\r\x1b[K"


class Progress:
    """Writes to standard error: answers go elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        """Say how far it is in the line that is written over; where there is no terminal, nothing is shown."""
        if not self._is_terminal:
            return
        text = printable(text)[: shutil.get_terminal_size().columns - 1]  # of a broken line only the end could go
        if text != self._shown:
            click.echo(f"{_CLEAR}{text}", nl=False, err=True)
            self._shown = text

    def tell(self, text: str) -> None:
        """Write a line that stays, on a terminal and elsewhere."""
        self.clear()
        note(text, label="")

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            click.echo(_CLEAR, nl=False, err=True)
            self._shown = ""


@contextmanager
def progress_line() -> Iterator[Progress]:
    """Show what goes on; the line is gone at the end, and what was told stays."""
    progress = Progress()
    try:
        yield progress
    finally:
        progress.clear()


@contextmanager
def said_when_interrupted(text: Callable[[], str]) -> Iterator[None]:
    """Say what goes on without us, if anything, when somebody interrupts the waiting."""
    try:
        yield
    except KeyboardInterrupt:
        if goes_on := text():
            note(goes_on, label="interrupted: ")
        raise
