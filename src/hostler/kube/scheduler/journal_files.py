"""Journal files of a long-running process: limited in size and number, each replayable alone.

The current file has the requested name. A full file gets a number, and a new one begins with a checkpoint. A full disk
ends the recording with one log line and affects nothing else. Used by ``hostler kube schedule --journal`` and ``hostler
journal record``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from hostler.engine.journals.journal import Recorder
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
    """Writes the entries of one recorder. ``recorder`` must be set before a limit can take effect.

    ``limit`` is how many bytes of entries a file takes beyond its first checkpoint; 0: any number. A file ends with a
    step, so that there is something to replay. ``keep`` is how many finished files are kept; 0: all. ``finished`` is
    called with each complete file before it gets its final name; until then it has the name ``current``, if one is
    given.
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
        self.earlier: Path | None = None  # the new name of an earlier file under our name
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
            )  # a journal of an earlier process: two of them in one file could not be replayed
            self._stream = self._open()
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            raise InputError(
                f"{path}: cannot be written: {problem}", hint="name another file for the journal"
            ) from None

    @property
    def files(self) -> list[Path]:
        """Return the existing files of this process, the oldest first."""
        return [file for file in (*self._numbered, self.path) if file.exists()]

    def write(self, data: bytes) -> None:
        """Write an entry; never raises. If the file is full, continue in a new one."""
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
        # The recorder writes what its engine has just done: at this moment, file and engine agree.
        if is_full and recorder is not None and not self._is_rotating:
            self._rotate(recorder)

    def start_over(self) -> None:
        """Begin a new file for another recorder: two of them in one file could not be replayed."""
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
            # The last file has only what the one before ends with, so that one is the last.
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
        """Continue in a new file, unless the current one is empty."""
        if self._current.stat().st_size:
            self._finished(self._current)
        aside = self._set_aside(self._current)
        if aside is not None:
            self._numbered.append(aside)
        self._drop_oldest()
        self._stream = self._open()
        self._since_open = 0

    def _stop(self, error: OSError | HostlerError) -> None:
        """Stop recording: entries after a gap could not be replayed."""
        stream, self._stream = self._stream, None
        self.is_stopped = True
        if stream is not None:
            stream.close()
        why = error.message if isinstance(error, HostlerError) else (error.strerror or str(error)).lower()
        self._warn(f"the journal {self._current} ends here; scheduling continues: {why}")

    def _open(self) -> BinaryIO:
        # Unbuffered: a killed process loses at most the last line.
        return open(self._current, "wb", buffering=0, opener=_for_its_owner)

    def _set_aside(self, file: Path) -> Path | None:
        """Give a finished file a number, unless it is empty."""
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
    """Reject a path that is no regular file: a pipe would block until it is read, a device keeps nothing."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # it does not exist yet, or opening it reports the error
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no plain file")
    if not stat.S_ISREG(mode):
        raise InputError(
            f"{path}: is {kind}; a journal must be a regular file", hint="name a file that does not exist yet"
        )


def _for_its_owner(path: str, flags: int) -> int:
    """Open a file that only its owner can read: it contains everything about a cluster."""
    return os.open(path, flags, 0o600)


def _write_all(stream: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]
