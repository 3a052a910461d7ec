"""Journal files of a process that runs for long: bounded in size and number, each replayable alone.

The file that is written has the name that was asked for; one that is full gets a number and a new one begins with a
checkpoint. A disk that is full ends the recording with a word, and nothing else. Used by ``hostler kube schedule
--journal`` and ``hostler journal record``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from hostler.engine.journal import Recorder
from hostler.errors import HostlerError, InputError

__all__ = ["JournalFiles"]

Finished = Callable[[Path], None]
_STEP = b'"entry":"stepped"'
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class JournalFiles:
    """Takes the entries of one recorder. ``recorder`` must be set before a limit can have an effect.

    ``limit`` is how many bytes of entries a file takes beyond what it begins with; 0: any number. It ends with a step,
    so that there is something to replay. ``keep`` is how many finished files stay; 0: all. ``finished`` is told of each
    file that is whole, before it gets its final name; until then it is called ``current``, where one is given.
    """

    def __init__(
        self,
        path: Path,
        *,
        limit: int = 0,
        keep: int = 10,
        current: Path | None = None,
        warn: Callable[[str], None] = lambda text: None,
        finished: Finished = lambda path: None,
    ) -> None:
        self.path = path
        self.recorder: Recorder | None = None
        self.is_stopped = False
        self.earlier: Path | None = None  # what was there under our name, where it is now
        self._numbered: list[Path] = []  # the full files of this process
        self._limit = limit
        self._keep = keep
        self._current = current or path
        self._warn = warn
        self._finished = finished
        self._since_open = 0
        self._is_rotating = False
        self._stream: BinaryIO | None = None
        for file in {path, self._current}:
            _check_kind(file)
        try:
            self.earlier = self._set_aside(
                path
            )  # a journal of an earlier process: two of them in one file could not be read
            self._stream = self._open()
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            raise InputError(
                f"{path}: cannot be written: {problem}", hint="name another file for the journal"
            ) from None

    @property
    def files(self) -> list[Path]:
        """Return the files of this process that are there, the oldest first."""
        return [file for file in (*self._numbered, self.path) if file.exists()]

    def write(self, data: bytes) -> None:
        """Write an entry; never raises. When the file is full, go on in a new one."""
        if self._stream is None:
            return
        try:
            _write_all(self._stream, data)
        except OSError as error:
            self._stop(error)
            return
        self._since_open += len(data)
        recorder = self.recorder
        is_full = 0 < self._limit < self._since_open and _STEP in data[:64]
        # The recorder writes what its engine has just done: at this moment file and engine agree.
        if is_full and recorder is not None and not self._is_rotating:
            self._rotate(recorder)

    def start_over(self) -> None:
        """Let another recorder begin, in a file of its own: two of them in one could not be read."""
        self.recorder = None
        if self._stream is None:
            return
        self._stream.close()
        try:
            self._next()
        except OSError as error:
            self._stop(error)

    def close(self) -> None:
        """End the last file."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        stream.close()
        if self._numbered and self._numbered[-1].exists() and not self._since_open:
            # The last one has nothing that the one before does not end with: that one is the last.
            self._current.unlink()
            self._numbered.pop().rename(self.path)
            return
        self._finished(self._current)
        if self._current != self.path:
            self._current.rename(self.path)

    def _rotate(self, recorder: Recorder) -> None:
        stream, self._stream = self._stream, None
        self._is_rotating = True
        try:
            if stream is not None:
                stream.close()
            self._next()
            recorder.rotate(self.write)
        except (OSError, HostlerError) as error:
            self._stop(error)
        finally:
            self._is_rotating = False
            self._since_open = 0

    def _next(self) -> None:
        """Go on in a new file, unless there is nothing in this one."""
        if self._current.stat().st_size:
            self._finished(self._current)
        aside = self._set_aside(self._current)
        if aside is not None:
            self._numbered.append(aside)
        self._drop_oldest()
        self._stream = self._open()
        self._since_open = 0

    def _stop(self, error: OSError | HostlerError) -> None:
        """Record no more: what a recorder writes after a gap could not be replayed."""
        stream, self._stream = self._stream, None
        self.is_stopped = True
        if stream is not None:
            stream.close()
        why = error.message if isinstance(error, HostlerError) else (error.strerror or str(error)).lower()
        self._warn(f"the journal {self._current} ends here, and scheduling goes on: {why}")

    def _open(self) -> BinaryIO:
        # Unbuffered: a process that is killed leaves all but the last line.
        return open(self._current, "wb", buffering=0, opener=_for_its_owner)

    def _set_aside(self, file: Path) -> Path | None:
        """Give a file a number, if there is anything in it."""
        if not file.is_file() or not file.stat().st_size:
            return None
        last = max(self._numbers(), default=0)
        aside = self.path.with_name(f"{self.path.name}.{last + 1}")
        file.rename(aside)
        return aside

    def _drop_oldest(self) -> None:
        numbers = sorted(self._numbers())
        for number in numbers[: -self._keep] if self._keep else ():
            self.path.with_name(f"{self.path.name}.{number}").unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        prefix = f"{self.path.name}."
        found = (path.name.removeprefix(prefix) for path in self.path.parent.glob(f"{self.path.name}.*"))
        return [int(word) for word in found if word.isascii() and word.isdecimal()]


def _check_kind(path: Path) -> None:
    """Refuse what is no file: a pipe would block us until somebody reads it, and a device keeps nothing."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # not there yet; or opening it says what is wrong
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no plain file")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: is {kind}, and a journal is a file", hint="name a file that does not exist yet")


def _for_its_owner(path: str, flags: int) -> int:
    """Open a file that only its owner reads: it tells everything about a cluster."""
    return os.open(path, flags, 0o600)


def _write_all(stream: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
