"""Standard output and standard error that tell their own failures from those of everything else.

An ``OSError`` alone does not say which file it is about, and click ends the process with 1 when it sees a closed
pipe. So while a command runs, writing to standard output fails with errors of ours that no library in between catches.
Standard error fails silently: there is no other stream to report on. Used by :mod:`hostler.cli.main`.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, ClassVar, TextIO

from hostler.errors import HostlerError, InputError, UnavailableError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["ReaderGone", "guard_streams", "write_error"]

# Nothing is wrong with the name: it works again once there is room, or the disk answers.
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class ReaderGone(Exception):  # no error, so no such name: many readers leave when they have seen enough
    """The reader of our output has closed it."""


def write_error(path: str, error: OSError) -> HostlerError:
    """Return the error for a file that cannot be written."""
    message = f"{path}: cannot be written: {_problem(error)}"
    if error.errno in _PASSING:
        return UnavailableError(message, hint="free some space, or name another file")
    return InputError(message, hint="check the folder and its permissions")


@contextmanager
def guard_streams() -> Iterator[None]:
    """Guard the streams of this process for a while; streams that were replaced are left alone."""
    before = sys.stdout, sys.stderr
    sys.stdout = _guarded(sys.stdout, _Output)
    sys.stderr = _guarded(sys.stderr, _Complaints)
    try:
        yield
    finally:
        ours = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = before
        for stream, theirs in zip(ours, before, strict=True):
            if stream is not theirs:
                # The answer was flushed before; what failed then would only fail again.
                with suppress(ReaderGone, HostlerError):
                    stream.close()


class _Guarded(io.BufferedWriter):
    """A stream of this process, by its number, that does not let errors of the system out.

    What lies below is Python's own file, which counts the bytes that went before a signal is heard. With a ``write`` of
    ours in that place, Ctrl-C could come in between, and the same bytes went again at the end.
    """

    number: ClassVar[int]

    def __init__(self) -> None:
        super().__init__(io.FileIO(self.number, "wb", closefd=False))

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of it."""
        left = memoryview(data).cast("B")
        size = len(left)
        while True:
            try:
                super().write(left)
            except BlockingIOError as error:
                left = left[error.characters_written :]
                self._wait()
            except OSError as error:
                self._lose(error)
            else:
                return size

    def flush(self) -> None:
        """Write what was kept back."""
        while True:
            try:
                return super().flush()
            except BlockingIOError:
                self._wait()
            except OSError as error:
                self._lose(error)

    def _wait(self) -> None:
        """Wait for room: another process made the shared stream non-blocking."""
        select([], [self.number], [])

    def _lose(self, error: OSError) -> None:
        """Let what is still to come go nowhere: Python flushes at its end, and would complain again."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.number)
        os.close(nowhere)
        self.fail(error)

    def fail(self, error: OSError) -> None:
        """Report that writing failed; do not continue without it."""


class _Output(_Guarded):
    """Standard output."""

    number = 1

    def fail(self, error: OSError) -> None:
        if error.errno == errno.EPIPE:
            raise ReaderGone from None
        raise UnavailableError(
            f"standard output cannot be written: {_problem(error)}",
            hint="free some space, or send the output elsewhere",
        ) from None


class _Complaints(_Guarded):
    """Standard error; its failures are ignored."""

    number = 2


def _guarded(stream: TextIO | None, kind: type[_Guarded]) -> TextIO:
    """Return a stream that writes to the same place and guards it."""
    if stream is None:  # closed before we came: Python leaves nothing to write to
        return Path(os.devnull).open("w")
    try:
        if stream.fileno() != kind.number:
            return stream
    except (OSError, ValueError):  # a stream in memory
        return stream
    return io.TextIOWrapper(
        kind(),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=kind is _Complaints or stream.isatty(),
    )


def _problem(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
