"""The database as the rest of the service sees it: ``write`` and ``read`` of small works, a notifier, an end.

Works are plain functions over a connection and run in threads: writes in the writer's, which commits many at once,
reads on snapshots beside it. Works that come often are joint ones (``joint``): many of them cost what one does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from hostler.config.folders import state_folder
from hostler.control.store import schema
from hostler.control.store.backend import Backend
from hostler.control.store.errors import DatabaseClosedError, translate
from hostler.control.store.history import History
from hostler.control.store.jobs import Job
from hostler.control.store.joint import Gatherer, JointWork, alone
from hostler.control.store.known_heads import HeadFile, HeadKeeper, make_identity, read_identity, warn_unwritten
from hostler.control.store.limits import Limits
from hostler.control.store.log import Entry
from hostler.control.store.notifier import Notifier
from hostler.control.store.sqlite import SqliteBackend
from hostler.control.store.traffic import Traffic
from hostler.control.store.writer import Work, Writer
from hostler.errors import InputError

__all__ = ["Database", "database_url", "default_url", "open_backend", "open_database"]

T = TypeVar("T")
Item = TypeVar("Item")

_LAST_PORT = 65535
_PORT_HINT = "write postgresql://user@host:5432/database, with a port between 1 and 65535 or none"


def default_url() -> str:
    """Return the database for those who name none: a file in the user's state folder."""
    return URL.create("sqlite", database=str(state_folder() / "control.db")).render_as_string()


def open_database(
    url: str = "",
    *,
    limits: Limits | None = None,
    state: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Database:
    """Open a database and bring it to this program's tables; blocks until that is done.

    With a folder ``state``, what this machine knows of the log is compared and kept there: LogWentBackError if the
    database lost it since. ``tell`` gets a line if the folder is of no use.
    """
    limits = limits or Limits()
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


def open_backend(url: str, limits: Limits) -> Backend:
    """Open what a URL names, as it is."""
    found = database_url(url)
    if found.get_backend_name() == "sqlite":
        return SqliteBackend(found, limits)
    try:
        from hostler.control.store.postgres import PostgresBackend
    except ImportError as error:
        hint = "install it: pip install 'hostler[postgres]'"
        raise InputError("the driver for PostgreSQL is not installed", hint=hint) from error
    return PostgresBackend(found, limits)


def database_url(url: str) -> URL:
    """Return a URL of one of our two kinds, the default's if it is empty."""
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
    """An open database; use ``open_database``. Closing finishes what was queued."""

    def __init__(self, backend: Backend, limits: Limits) -> None:
        self._backend = backend
        self._readers = ThreadPoolExecutor(limits.readers, thread_name_prefix="hostler-reader")
        self._writer = Writer(backend, limits)
        self._gatherer = Gatherer(self.read)
        self._keeper: HeadKeeper | None = None
        self._is_closed = False

    @property
    def name(self) -> str:
        """Say where the database is, without a password."""
        return self._backend.name

    @property
    def is_shared(self) -> bool:
        """Say whether other processes may write to it too."""
        return not isinstance(self._backend, SqliteBackend)

    @property
    def notifier(self) -> Notifier:
        """Return what wakes up when the log grows, whoever wrote to it."""
        return self._backend.notifier

    @property
    def waiting(self) -> int:
        """Return how many writes are queued."""
        return self._writer.waiting

    @property
    def commits(self) -> int:
        """Return how many transactions were committed; with the count of writes, how well they share."""
        return self._writer.commits

    @property
    def failures(self) -> Mapping[str, int]:
        """Return how many writes failed by the database, not by what they asked for, by the code of the error."""
        return self._writer.failures

    @property
    def traffic(self) -> Traffic:
        """Return whether writes are under way, for those who stand back then."""
        return self._writer.traffic

    @property
    def history(self) -> History:
        """Return what this process knows of the log, and whether the log went back behind it."""
        return self._writer.history

    def remember(self, folder: Path, tell: Callable[[str], None]) -> None:
        """Compare the log with what this machine knows of it, and keep that from now on; LogWentBackError. Blocks."""
        place = self.read_now(self._backend.place)
        identity = self.read_now(read_identity)
        if identity:
            self._resume(HeadFile(folder, identity, place), tell)
        else:
            identity = self.submit(make_identity).result()
        self._keeper = HeadKeeper(HeadFile(folder, identity, place), self.history, tell)

    def _resume(self, file: HeadFile, tell: Callable[[str], None]) -> None:
        try:
            tip = file.read()  # before the snapshot that it is compared with
        except (OSError, ValueError) as error:
            tell(warn_unwritten(file.path, error))
            return
        self.read_now(lambda connection: self.history.resume(connection, tip, f"known from {file.path}"))

    def written_after(self, seq: int) -> list[Entry]:
        """Return entries of the log that follow a number, as far as this process wrote them lately and nobody between.

        Nothing says nothing: others may have written.
        """
        return self._writer.recent.after(seq)

    async def write(self, work: Work[T]) -> T:
        """Run a work that may write; returns when it is on disk. Cancelled before its turn, it is not run.

        A work must not commit or roll back. OutcomeUnknownError: it may be written or not.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._writer.queue(Job(work, answer))
        return await answer

    async def write_jointly(self, work: JointWork[Item, T], item: Item) -> T:
        """Write an item of a joint work, together with others that wait for the same work."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._writer.queue(Job(alone(work, item), answer, work, item))
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
        """Run a work that only reads, in this thread; a connection that broke while it was idle is opened again."""
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
        """Finish what is queued and close; blocks. Nothing happens the second time."""
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
