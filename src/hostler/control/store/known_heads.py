"""The newest entry of the log that this machine knows, in a file: a process that starts later compares it, too.

``history`` notices a log that went back as long as the process lives. A file outside of the database carries what it
knew over a restart: number and digest of an entry that was committed. A log without that entry has lost commits, and
nothing is served. An entry that is older than the log's end is normal: the file is written once a second at most, so
what was committed in the last second before a kill is not in it, and other machines go on meanwhile.

Files are found by the identity of a log, a random setting in the database, and by the database's place: a copy under
another name goes on by itself. A restore removes the identity, so that the restored log gets a new one and no machine
holds it to what it replaced. Used by ``database`` for those who name a folder: ``hostler serve`` and ``rebuild``.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

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
_EVERY_S = 1.0  # at most one fsync in this time


class LogIdentity(msgspec.Struct, frozen=True):
    """What the setting keeps as JSON: it is the same as long as the log is one log."""

    id: str


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file holds. ``check`` is a digest of the rest: a damaged file must not accuse a sound database."""

    database: str  # for people
    seq: int
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
    """One file, for one log at one place."""

    def __init__(self, folder: Path, identity: str, place: str) -> None:
        key = blake2b(f"{identity}\0{place}".encode(), digest_size=16).hexdigest()
        self.path = folder / _FOLDER / f"{key}.json"
        self._place = place

    def read(self) -> Tip:
        """Return what is known, nothing if there is no file; ValueError or OSError if it cannot be read."""
        try:
            body = msgspec.json.decode(self.path.read_bytes(), type=_Body)
        except FileNotFoundError:
            return Tip()
        if body.check != _check(body):
            raise ValueError("its bytes are not those that were written")
        return Tip(body.seq, bytes.fromhex(body.digest))

    def write(self, tip: Tip) -> None:
        """Put an entry in the place of what was known: whole or not at all, on disk when this returns; OSError.

        Several processes may write, each what it knows: any of it is true.
        """
        body = _Body(database=self._place, seq=tip.seq, digest=tip.digest.hex())
        text = msgspec.json.encode(msgspec.structs.replace(body, check=_check(body)))
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.path.with_suffix(f".{os.getpid()}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        sync(self.path.parent)


def _check(body: _Body) -> str:
    values = (body.database, body.seq, body.digest)
    return blake2b(msgspec.msgpack.encode(values), digest_size=16).hexdigest()


class HeadKeeper:
    """A thread that writes what a process knows to its file, from construction to ``close``."""

    def __init__(self, file: HeadFile, history: History, tell: Callable[[str], None]) -> None:
        self._file = file
        self._history = history
        self._tell = tell
        self._written = Tip()
        self._has_failed = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hostler-known-head", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the last entry, and end."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(_EVERY_S):
            self._write()
        self._write()

    def _write(self) -> None:
        """Write what is new. A disk that fails is no reason to stop: what is older still counts; it is told once."""
        tip = self._history.tip
        if tip == self._written or self._history.went_back is not None:
            return
        try:
            self._file.write(tip)
            self._written, self._has_failed = tip, False
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                self._tell(warn_unwritten(self._file.path, error))


def warn_unwritten(path: Path, error: Exception) -> str:
    """Say that a file is of no use, and what that means."""
    problem = getattr(error, "strerror", None) or str(error)
    return f"{path} cannot be used: {problem}; a loss of commits is not noticed after a restart"
