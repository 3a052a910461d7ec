"""The newest log entry that this machine knows, kept in a file so that a later process can compare it.

``history`` notices a log that went back as long as the process lives. This file, outside the database, carries the
knowledge over a restart: number and digest of a committed entry. A database without that entry has lost commits and is
not served. An entry older than the end of the log is normal, because other machines go on writing.

Flow: ``History`` reports each new tip, ``HeadKeeper`` writes it to ``HeadFile`` at once, and a thread syncs the file
once a second. So a killed process loses nothing, and a power cut loses a second at most.

The file has two slots, overwritten in place. Replacing a file frees blocks, and on a file system mounted with
``discard`` every commit of the database waits while they are discarded. Invariant: a slot is written by one ``pwrite``
within one disk sector, and a sync begins with the change to the other slot. So one slot is whole at any time.

Files are found by the identity of a log, a random setting in the database, and by the database's place: a copy under
another name is independent. A restore removes the identity, so the restored log gets a new one and no machine compares
it with the log that it replaced. Used by ``database`` if a folder is given: by ``hostler serve`` and ``rebuild``.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
from sqlalchemy import Connection, delete

from hostler.control.store import documents
from hostler.control.store.backup_files import sync
from hostler.control.store.documents import Document
from hostler.control.store.history import History, Tip
from hostler.control.store.tables import settings

__all__ = ["HeadFile", "HeadKeeper", "LogIdentity", "drop_identity", "make_identity", "read_identity", "warn_unwritten"]

_IDENTITY = "log-identity"
_FOLDER = "known-heads"
_SYNC_EVERY_S = 1.0
_SECTOR = 512  # bytes that a disk writes whole or not at all
_PAGE = 4096  # each slot has a page of its own: writing one does not wait while the other is synced
_PLACE_BYTES = 200  # of the database's name, which only people read; the rest of a slot takes at most 170


class LogIdentity(msgspec.Struct, frozen=True):
    """What the setting keeps as JSON: it is the same as long as the log is one log."""

    id: str


class _Slot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One slot of a file. ``check`` is a digest of the rest: a damaged file must not accuse an intact database."""

    database: str  # for people
    seq: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    digest: str
    check: str = ""


def read_identity(connection: Connection) -> str:
    """Return the identity of the log; nothing if it has none yet."""
    found = documents.find(connection, "setting", "", _IDENTITY)
    return "" if found is None else msgspec.json.decode(found.body, type=LogIdentity).id


def make_identity(connection: Connection) -> str:
    """Return the identity of the log, and make it if there is none. A work that writes, so replicas come in turns."""
    found = read_identity(connection)
    if not found:
        found = secrets.token_hex(16)
        body = msgspec.json.encode(LogIdentity(found))
        documents.insert(connection, "setting", Document(project="", name=_IDENTITY, body=body))
    return found


def drop_identity(connection: Connection) -> None:
    """Let the log be another one from now on: what machines know of it no longer counts."""
    connection.execute(delete(settings).where(settings.c.project == "", settings.c.name == _IDENTITY))


class HeadFile:
    """One file, for one log at one place.

    Several processes may write to it. Each one writes what it knows, and all of it is true.
    """

    def __init__(self, folder: Path, identity: str, place: str) -> None:
        name = place.encode(errors="surrogateescape")  # paths need not be UTF-8
        key = blake2b(identity.encode() + b"\0" + name, digest_size=16).hexdigest()
        self.path = folder / _FOLDER / f"{key}.json"
        self._place = name[:_PLACE_BYTES].decode(errors="replace")
        self._slot = 0
        self._file: int | None = None

    def read(self) -> Tip:
        """Return the newest known entry, an empty one if there is no file; ValueError or OSError if unreadable."""
        try:
            file = _open_regular(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return Tip()
        try:
            return _newest(os.pread(file, 2 * _PAGE, 0))
        finally:
            os.close(file)

    def write(self, tip: Tip) -> None:
        """Write an entry to the current slot. It survives this process, and after ``sync`` a power cut; OSError."""
        slot = _Slot(database=self._place, seq=tip.seq, digest=tip.digest.hex())
        line = msgspec.json.encode(msgspec.structs.replace(slot, check=_check(slot)))
        os.pwrite(self._open(), line.ljust(_SECTOR - 1) + b"\n", self._slot * _PAGE)

    def sync(self) -> None:
        """Wait until what was written is on disk; what comes meanwhile goes to the other slot; OSError."""
        self._slot = 1 - self._slot
        os.fdatasync(self._open())

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        if self._file is not None:
            return self._file
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = _open_regular(self.path, os.O_RDWR | os.O_CREAT)
        try:
            if not os.fstat(file).st_size:
                os.pwrite(file, b"\n".rjust(2 * _PAGE), 0)  # so that later writes allocate nothing
            os.fsync(file)
            sync(self.path.parent)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return file


def _open_regular(path: Path, flags: int) -> int:
    """Open a file and nothing else: a pipe would block, and a device has no end; OSError."""
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return file


def _newest(content: bytes) -> Tip:
    """Return the newest entry of both slots; ValueError if one is damaged and the other one has none."""
    tip = Tip()
    problem = ""
    for start in (0, _PAGE):
        text = content[start : start + _SECTOR].strip()
        try:
            if text:
                tip = max(tip, _decode(text))
        except ValueError as error:
            problem = str(error)
    if problem and not tip.seq:
        raise ValueError(problem)
    return tip


def _decode(text: bytes) -> Tip:
    slot = msgspec.json.decode(text, type=_Slot)
    if slot.check != _check(slot):
        raise ValueError("its bytes are not those that were written")
    return Tip(slot.seq, bytes.fromhex(slot.digest))


def _check(slot: _Slot) -> str:
    return blake2b(f"{slot.database}\0{slot.seq}\0{slot.digest}".encode(), digest_size=16).hexdigest()


class HeadKeeper:
    """Writes each new tip of a history to a file, and syncs it in a thread, from construction to ``close``."""

    def __init__(self, file: HeadFile, history: History, tell: Callable[[str], None]) -> None:
        self._file = file
        self._history = history
        self._tell = tell
        self._lock = threading.Lock()  # tips come from several threads
        self._written = self._synced = Tip()
        self._has_failed = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hostler-known-head", daemon=True)
        history.watch(self._write)
        self._write(history.tip)
        self._thread.start()

    def close(self) -> None:
        """Sync the last entry, and end."""
        self._closing.set()
        self._thread.join()
        self._history.watch(None)
        self._file.close()

    def _run(self) -> None:
        while not self._closing.wait(_SYNC_EVERY_S):
            self._sync()
        self._sync()

    def _write(self, tip: Tip) -> None:
        with self._lock:
            if tip.seq <= self._written.seq or self._history.went_back is not None:
                return
            try:
                self._file.write(tip)
                self._written = tip
            except OSError as error:
                self._report(error)

    def _sync(self) -> None:
        self._write(self._history.tip)  # again, if it failed before
        if self._written == self._synced:
            return
        written = self._written
        try:
            self._file.sync()
            self._synced, self._has_failed = written, False
        except OSError as error:
            self._report(error)

    def _report(self, error: OSError) -> None:
        """Report a failing disk once. It is no reason to stop: what is older still counts."""
        if not self._has_failed:
            self._has_failed = True
            self._tell(warn_unwritten(self._file.path, error))


def warn_unwritten(path: Path, error: Exception) -> str:
    """Say that a file is of no use, and what that means."""
    problem = getattr(error, "strerror", None) or str(error)
    return f"{path} cannot be used: {problem}; a loss of commits is not noticed after a restart"
