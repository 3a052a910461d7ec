"""The newest log entry that this machine knows, kept in a file so that a later process can compare it.

``continuity`` notices a log that went back as long as the process lives. This file, outside the database, carries the
knowledge over a restart: number and digest of a committed entry. A database without that entry has lost commits and is
not served. An entry older than the end of the log is normal, because other machines continue to write.

Flow: ``LogContinuity`` reports each new tip, ``HeadKeeper`` writes it to ``HeadFile`` at once, and a thread syncs the
file once a second. So a killed process loses nothing, and a power cut loses a second at most.

The file has two slots, overwritten in place. Replacing a file frees blocks, and on a file system mounted with
``discard`` every commit of the database waits while they are discarded. Invariant: a slot is written by one ``pwrite``
within one disk sector, and a sync begins with the change to the other slot. So one slot is whole at any time.

Files are found by the identity of a log, a random setting in the database, and by the database's place: a copy under
another name is independent. A restore gives the log a new identity, so no machine compares it with the log that it
replaced. A log without an identity is new, or a copy of a file without its write-ahead log: ``heads_at`` finds what is
known of its place. Used by ``database`` if a folder is given: by ``hostler serve`` and ``rebuild``.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
from sqlalchemy import Connection, delete

from hostler.control.store.files import sync
from hostler.control.store.history.continuity import LogContinuity, Tip
from hostler.control.store.rows import documents
from hostler.control.store.rows.documents import DocumentRow
from hostler.control.store.tables import settings
from hostler.runtime.files import open_regular, read_regular

__all__ = [
    "HeadFile", "HeadKeeper", "LogIdentity", "heads_at", "make_identity", "read_identity", "renew_identity",
    "warn_unwritten",
]  # fmt: skip

_IDENTITY = "log-identity"
_FOLDER = "known-heads"
_SYNC_EVERY_S = 1.0
_SECTOR = 512  # bytes that a disk writes whole or not at all
_PAGE = 4096  # each slot has a page of its own: writing one does not wait while the other is synced
_PLACE_BYTES = 200  # of the database's name, which only people read; the rest of a slot takes at most 170


class LogIdentity(msgspec.Struct, frozen=True):
    """The setting's JSON content: the same for as long as the log is the same log."""

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
        documents.insert(connection, "setting", DocumentRow(project="", name=_IDENTITY, body=body))
    return found


def renew_identity(connection: Connection) -> None:
    """Let the log be another one from now on: what machines know of it no longer counts."""
    connection.execute(delete(settings).where(settings.c.project == "", settings.c.name == _IDENTITY))
    make_identity(connection)


def heads_at(folder: Path, place: str) -> Iterator[tuple[Path, Tip]]:
    """Yield the newest known entry of each log that was ever served from a place, with its file.

    Files cut long names, so they tell nothing of a place that has one.
    """
    name = _place_name(place)
    if name != place:
        return
    for path in sorted((folder / _FOLDER).glob("*.json")):
        with suppress(OSError, ValueError):  # a damaged file knows nothing
            found, tip = _newest(read_regular(path, 2 * _PAGE))
            if found == name:
                yield path, tip


def _place_name(place: str) -> str:
    """Return a place as files name it; paths need not be UTF-8."""
    return place.encode(errors="surrogateescape")[:_PLACE_BYTES].decode(errors="replace")


class HeadFile:
    """One file, for one log at one place.

    Several processes may write to it. Each one writes what it knows, and all of it is true.
    """

    def __init__(self, folder: Path, identity: str, place: str) -> None:
        whole = identity.encode() + b"\0" + place.encode(errors="surrogateescape")
        self.path = folder / _FOLDER / f"{blake2b(whole, digest_size=16).hexdigest()}.json"
        self._place = _place_name(place)
        self._slot = 0
        self._file: int | None = None

    def read(self) -> Tip:
        """Return the newest known entry, an empty one if there is no file; ValueError or OSError if unreadable."""
        try:
            return _newest(read_regular(self.path, 2 * _PAGE))[1]
        except FileNotFoundError:
            return Tip()

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
        file = open_regular(self.path, os.O_RDWR | os.O_CREAT)
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


def _newest(content: bytes) -> tuple[str, Tip]:
    """Return the place and the newest entry of both slots; ValueError if one is damaged and the other one has none."""
    place, tip, problem = "", Tip(), ""
    for start in (0, _PAGE):
        text = content[start : start + _SECTOR].strip()
        try:
            if text:
                slot = _decode(text)
                place, tip = slot.database, max(tip, Tip(slot.seq, bytes.fromhex(slot.digest)))
        except ValueError as error:
            problem = str(error)
    if problem and not tip.seq:
        raise ValueError(problem)
    return place, tip


def _decode(text: bytes) -> _Slot:
    slot = msgspec.json.decode(text, type=_Slot)
    if slot.check != _check(slot):
        raise ValueError("its bytes are not those that were written")
    return slot


def _check(slot: _Slot) -> str:
    return blake2b(f"{slot.database}\0{slot.seq}\0{slot.digest}".encode(), digest_size=16).hexdigest()


class HeadKeeper:
    """Writes each new tip of a history to a file, and syncs it in a thread, from construction to ``close``."""

    def __init__(self, file: HeadFile, history: LogContinuity, tell: Callable[[str], None]) -> None:
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
