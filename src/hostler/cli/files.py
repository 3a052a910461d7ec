"""Files that commands write, and journals that they read.

A file gets its name only when it is complete: a scratch file beside it is written, and renamed at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hostler.cli.output.streams import write_error
from hostler.cli.output.terminal import printable, say
from hostler.errors import InputError, JournalError
from hostler.runtime.files import new_file

if TYPE_CHECKING:
    from hostler.engine.journals.journal import Journal

__all__ = ["atomic_file", "load_journal", "say_written"]

STANDARD_STREAM = "-"
MAX_LINE = 2**30  # bytes of one journal entry; a longer one is no journal


@contextmanager
def atomic_file(path: str) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to a new file, which gets its name after success; ``-`` is standard output."""
    if path == STANDARD_STREAM:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    target = Path(path).resolve()  # a link keeps pointing where it points
    try:
        if target.is_dir():
            raise InputError(f"{path}: this is a folder", hint="name a file")
        if target.exists() and not target.is_file():  # a pipe or a device is written to, never replaced
            with target.open("wb") as stream:
                yield stream.write
            return
        with new_file(target, part=target.with_name(f".{target.name}.{os.getpid()}")) as stream:
            yield stream.write
    except OSError as error:
        raise write_error(path, error) from None


def say_written(path: str, content: str, size: int) -> None:
    """Say what a file holds that was written; of standard output nothing, because it carries the content."""
    from hostler.model.vocabulary import plural

    if path != STANDARD_STREAM:
        say(f"wrote {printable(path)}: {content}, {plural(size, 'byte')}")


def load_journal(path: str) -> Journal:
    """Read a journal file, line by line; ``-`` is standard input."""
    from hostler.engine.journals.journal import read_journal

    name = "<stdin>" if path == STANDARD_STREAM else path
    try:
        if path == STANDARD_STREAM:
            return read_journal(_lines(sys.stdin.buffer))
        if Path(path).is_dir():
            raise InputError(f"{name}: this is a folder", hint="name a file")
        with Path(path).open("rb") as stream:
            return read_journal(_lines(stream))
    except JournalError as error:
        hint = error.hint or "hostler place --journal FILE writes a journal"
        raise JournalError(f"{name}: {error.message}", hint=hint) from error
    except (OSError, ValueError) as error:
        problem = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"{name}: cannot be read: {problem}", hint="check the path and its permissions") from None


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines, but never one that would fill the memory."""
    while line := stream.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise JournalError("a line is longer than 1 GiB", hint="is this a journal at all?")
        yield line
