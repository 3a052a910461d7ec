"""The database for the rest of the service: ``write`` and ``read`` of small works, a notifier, and ``close``.

Works are plain functions over a connection and run in threads: writes in the writer's thread, which commits many at
once, reads on snapshots beside it. Frequent works are joint works (``writes.jobs``): many of them cost as much as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from hostler.config.folders import state_folder
from hostler.control.store import schema
from hostler.control.store.backends.backend import Backend, DatabaseLimits, Notifier
from hostler.control.store.backends.sqlite import SqliteBackend
from hostler.control.store.errors import DatabaseClosedError, translate
from hostler.control.store.history import log
from hostler.control.store.history.continuity import LogContinuity
from hostler.control.store.history.known_heads import (
    HeadFile,
    HeadKeeper,
    heads_at,
    make_identity,
    read_identity,
    warn_unwritten,
)
from hostler.control.store.history.log import StoredEntry
from hostler.control.store.writes.jobs import JointReads, JointWork, WriteJob, bind_item
from hostler.control.store.writes.traffic import Traffic
from hostler.control.store.writes.writer import Work, Writer
from hostler.errors import InputError

__all__ = ["Database", "database_url", "default_url", "open_backend", "open_database"]

T = TypeVar("T")
Item = TypeVar("Item")

_LAST_PORT = 65535
_PORT_HINT = "write postgresql://user@host:5432/database, with a port between 1 and 65535 or none"


def default_url() -> str:
    """Return the default database: a file in the user's state folder."""
    return URL.create("sqlite", database=str(state_folder() / "control.db")).render_as_string()


def open_database(
    url: str = "",
    *,
    limits: DatabaseLimits | None = None,
    state: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Database:
    """Open a database and migrate it to this program's tables; blocks until that is done.

    With a folder ``state``, compare the log with what this machine knows of it, and keep that there: LogWentBackError
    if the database lost entries. ``tell`` gets a line if the folder cannot be used.
    """
    limits = limits or DatabaseLimits()
    backend = open_backend(url, limits)
    try:
        schema.migrate(backend)
        database = Database(backend, limits)
    except BaseException:
        backend.close()
        raise
    if state is not None:
        try:
            database.remember(state, tell)
        except BaseException:
            database.close()
            raise
    return database


def open_backend(url: str, limits: DatabaseLimits) -> Backend:
    """Open the database of a URL, unchanged."""
    found = database_url(url)
    if found.get_backend_name() == "sqlite":
        return SqliteBackend(found, limits)
    try:
        from hostler.control.store.backends.postgres import PostgresBackend
    except ImportError as error:
        hint = "install it: pip install 'hostler[postgres]'"
        raise InputError("the driver for PostgreSQL is not installed", hint=hint) from error
    return PostgresBackend(found, limits)


def database_url(url: str) -> URL:
    """Parse a URL of a supported database; the default if it is empty."""
    hint = "write sqlite:////path/to/file.db or postgresql://user@host/database"
    try:
        # `postgres://` is what many providers print.
        found = make_url(f"postgresql://{url[11:]}" if url.startswith("postgres://") else url or default_url())
    except ArgumentError as error:
        raise InputError("the database URL cannot be read", hint=hint) from error
    except ValueError:
        raise InputError("the port in the database URL is not a number", hint=_PORT_HINT) from None
    if found.port is not None and not 0 < found.port <= _LAST_PORT:
        raise InputError(f"the port in the database URL cannot be {found.port}", hint=_PORT_HINT)
    if found.get_backend_name() not in ("sqlite", "postgresql"):
        raise InputError(f"{found.get_backend_name()} is not a kind of database that Hostler uses", hint=hint)
    return found


class Database:
    """An open database; use ``open_database``. Closing it finishes queued works."""

    def __init__(self, backend: Backend, limits: DatabaseLimits) -> None:
        self._backend = backend
        self._readers = ThreadPoolExecutor(limits.readers, thread_name_prefix="hostler-reader")
        self._writer = Writer(backend, limits)
        self._gatherer = JointReads(self.read)
        self._keeper: HeadKeeper | None = None
        self._is_closed = False

    @property
    def name(self) -> str:
        """Return where the database is, without a password."""
        return self._backend.name

    @property
    def is_shared(self) -> bool:
        """Say whether other processes may write to it too."""
        return not isinstance(self._backend, SqliteBackend)

    @property
    def notifier(self) -> Notifier:
        """Return the notifier that wakes up when the log grows."""
        return self._backend.notifier

    @property
    def waiting(self) -> int:
        """Return how many writes are queued."""
        return self._writer.waiting

    @property
    def commits(self) -> int:
        """Return the number of committed transactions; compare it with the number of writes."""
        return self._writer.commits

    @property
    def failures(self) -> Mapping[str, int]:
        """Return how many writes failed because of the database, by error code."""
        return self._writer.failures

    @property
    def traffic(self) -> Traffic:
        """Return whether writes run, for computations that pause then."""
        return self._writer.traffic

    @property
    def history(self) -> LogContinuity:
        """Return what this process knows of the log, and whether the log went back."""
        return self._writer.history

    def remember(self, folder: Path, tell: Callable[[str], None]) -> None:
        """Compare the log with what this machine knows of it, and keep that from now on; LogWentBackError. Blocks."""
        place = self.read_now(self._backend.place)
        identity = self.read_now(read_identity)
        if identity:
            self._resume(HeadFile(folder, identity, place), tell)
        else:
            self._compare_place(folder, place)
            identity = self.submit(make_identity).result()
        self._keeper = HeadKeeper(HeadFile(folder, identity, place), self.history, tell)

    def _resume(self, file: HeadFile, tell: Callable[[str], None]) -> None:
        try:
            tip = file.read()  # before the snapshot that it is compared with
        except (OSError, ValueError) as error:
            tell(warn_unwritten(file.path, error))
            return
        self.read_now(lambda connection: self.history.resume(connection, tip, f"known from {file.path}"))

    def _compare_place(self, folder: Path, place: str) -> None:
        """Compare a log without an identity with all that is known of its place, unless the log is new."""
        if self.read_now(log.head):
            for path, tip in heads_at(folder, place):
                self.read_now(partial(self.history.resume, tip=tip, source=f"known from {path}"))

    def written_after(self, seq: int) -> list[StoredEntry]:
        """Return the entries after a number that this process wrote lately without others in between.

        An empty list says nothing: others may have written.
        """
        return self._writer.recent.after(seq)

    async def write(self, work: Work[T]) -> T:
        """Run a work that may write; returns when it is on disk. If canceled before its turn, it does not run.

        A work must not commit or roll back. OutcomeUnknownError: it may be written or not.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._writer.queue(WriteJob(work, answer))
        return await answer

    async def write_jointly(self, work: JointWork[Item, T], item: Item) -> T:
        """Write an item of a joint work, together with other items that wait for the same work."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._writer.queue(WriteJob(bind_item(work, item), answer, work, item))
        return await answer

    async def read_jointly(self, work: JointWork[Item, T], item: Item) -> T:
        """Read an item of a joint work, on a snapshot that it may share with others."""
        return await self._gatherer.ask(work, item)

    async def read(self, work: Work[T]) -> T:
        """Run a work that only reads, on one snapshot."""
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.read_now, work)

    def submit(self, work: Work[T]) -> Future[T]:
        """Queue a work that may write, for callers without an event loop."""
        return self._writer.submit(work)

    def read_now(self, work: Work[T]) -> T:
        """Run a work that only reads, in this thread; reopen a connection that broke while it was idle."""
        self._check_open()
        try:
            return self._read_once(work)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise translate(error) from error
        except SQLAlchemyError as error:
            raise translate(error) from error
        try:
            return self._read_once(work)
        except SQLAlchemyError as error:
            raise translate(error) from error

    def _read_once(self, work: Work[T]) -> T:
        tip = self.history.tip
        with self._backend.reading.connect() as connection, connection.begin():
            self.history.check_reading(connection, tip)
            return work(connection)

    def close(self) -> None:
        """Finish queued works and close; blocks. A second call does nothing."""
        if self._is_closed:
            return
        self._writer.close()
        if self._keeper is not None:
            self._keeper.close()  # after the last commit
        self._is_closed = True
        self._readers.shutdown()
        self._backend.close()

    async def aclose(self) -> None:
        """Close without blocking the event loop."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise DatabaseClosedError("the database is closed", hint="ask another replica, or try again")
