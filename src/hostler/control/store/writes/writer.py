"""Group commit: one thread writes, and all works that wait at that time share one COMMIT.

A small transaction costs mostly the wait for the disk, so many of them share that wait. A joint work runs once for all
its items, which saves statements. One batch of works goes through these states::

    queued --> running together --all good--> COMMIT --> committed --> futures resolve
                    |                           |
                    | one fails: roll back      +-- rejected: nothing written, error for all
                    v                           +-- no answer: OutcomeUnknownError for all
               running alone, each in a savepoint
               (a failed work is rolled back alone) --> COMMIT

A batch first runs without savepoints, because savepoints are a third of the cost of a small work. If a work fails,
everything is rolled back and each work runs again in a savepoint of its own. So a work may run twice, and it must
change nothing but the database.

Invariants:

- Futures resolve after COMMIT, those of failed works too: a work may fail because of what another work of the same
  transaction wrote, and that must be durable before anyone hears of it.
- Only ``_commit`` commits: ``_check_commit`` stops a work that tries, because it would commit other works.
- After a COMMIT without an answer, this process does not repeat the works. The caller has to read what happened.
- The connection is dropped after every unclear outcome. ``RecentEntries`` is then emptied, since another server may
  have taken over without the last commits.
- Every new transaction compares the head of the log with what this process knows (``LogContinuity``) before it writes.

``RecentEntries`` keeps the log entries that this process wrote last, so its follower need not read them back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import takewhile
from typing import TypeVar

from sqlalchemy import Connection, RootTransaction, event
from sqlalchemy.exc import SQLAlchemyError

from hostler.control.store.backends.backend import Backend, DatabaseLimits
from hostler.control.store.errors import (
    FAILURES,
    DatabaseClosedError,
    DatabaseUnavailableError,
    OutcomeUnknownError,
    OverloadedError,
    cause_of,
    own_copy,
    translate,
)
from hostler.control.store.history import log
from hostler.control.store.history.continuity import LogContinuity
from hostler.control.store.history.log import StoredEntry
from hostler.control.store.writes.jobs import WriteJob, run_all, settle
from hostler.control.store.writes.traffic import Traffic
from hostler.errors import InternalError

__all__ = ["RecentEntries", "Work", "Writer"]

T = TypeVar("T")
Work = Callable[[Connection], T]


class Writer:
    """A thread with the one connection that writes."""

    def __init__(self, backend: Backend, limits: DatabaseLimits) -> None:
        self._backend = backend
        self._limits = limits
        self._queue: deque[WriteJob] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._connection: Connection | None = None
        self._is_committing = False
        self.commits = 0
        self.recent = RecentEntries()
        self.traffic = Traffic()
        self.history = LogContinuity(backend.is_standby)
        self.failures = dict.fromkeys((kind.code for kind in FAILURES), 0)
        event.listen(backend.writing, "commit", self._check_commit)
        self._thread = threading.Thread(target=self._run, name="hostler-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Return how many works are queued."""
        return len(self._queue)

    def submit(self, work: Work[T]) -> Future[T]:
        """Queue a work for a thread that waits; a future canceled before its turn is skipped."""
        future: Future[T] = Future()
        self.queue(WriteJob(work, future))
        return future

    def queue(self, job: WriteJob) -> None:
        """Queue a work; DatabaseClosedError, OverloadedError."""
        with self._changed:
            if self._is_closing:
                raise DatabaseClosedError("the database is being closed", hint="ask another replica, or try again")
            if len(self._queue) >= self._limits.waiting:
                self.failures[OverloadedError.code] += 1
                raise OverloadedError(f"{len(self._queue)} writes wait already", hint="try again in a moment")
            self._queue.append(job)
            self.traffic.begin()
            self._changed.notify()

    def close(self) -> None:
        """Finish the queued works, reject new ones, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while jobs := self._next_jobs():
            self._write(jobs)
            self.traffic.end(len(jobs))
        self._drop(is_broken=False)

    def _next_jobs(self) -> list[WriteJob]:
        """Wait for works and take them; an empty list means the end."""
        with self._changed:
            while not self._queue and not self._is_closing:
                self._changed.wait()
            count = min(len(self._queue), self._limits.together)
            return [self._queue.popleft() for _ in range(count)]

    def _write(self, jobs: list[WriteJob]) -> None:
        """Run works in one transaction and settle all their futures, whatever happens."""
        running = [job for job in jobs if job.begin()]
        if not running:
            return
        try:
            self._transact(running)
        except BaseException as error:  # the thread must live on, and no caller may wait forever
            for job in running:
                job.error = own_copy(error)
        for job in running:
            if isinstance(job.error, FAILURES):
                self.failures[job.error.code] += 1
        settle(running)

    def _transact(self, jobs: list[WriteJob]) -> None:
        connection, transaction = self._begin()
        try:
            if not self._attempt_all(connection, transaction, jobs):
                if not transaction.is_active:
                    connection, transaction = self._begin()
                for job in jobs:
                    self._attempt(connection, transaction, job)
            entries = log.close_tail(connection)
            if entries:
                self._backend.announce(connection)
        except BaseException as error:
            self._drop()
            raise translate(error) from error
        self._commit(connection, transaction)
        self.commits += 1
        if entries:
            self.recent.add(entries)
            self.history.note(entries[-1])
            self._backend.notifier.poke()
        self._backend.after_commit(connection)

    def _begin(self) -> tuple[Connection, RootTransaction]:
        """Begin a transaction; a connection that broke while it was idle is opened again at once."""
        is_reused = self._connection is not None
        try:
            if why := self._backend.why_gone():
                self.history.end(why)
            self.history.check()
            if self._connection is None:
                self._connection = self._backend.writing.connect()
            transaction = self._connection.begin()
            self.history.check_writing(self._connection, log.open_tail(self._connection))
        except BaseException as error:
            is_broken = self._connection is None or self._connection.invalidated
            self._drop()
            if is_reused and is_broken:
                return self._begin()
            raise translate(error) from error
        return self._connection, transaction

    def _attempt_all(self, connection: Connection, transaction: RootTransaction, jobs: list[WriteJob]) -> bool:
        """Run works without savepoints; roll all of them back if one fails."""
        try:
            run_all(connection, jobs)
            if transaction.is_active and self._backend.can_commit(connection):
                return True
        except Exception:
            pass
        if connection.invalidated:
            hint = "nothing was written; try again"
            raise DatabaseUnavailableError("the connection to the database broke", hint=hint)
        if transaction.is_active:
            transaction.rollback()
        return False

    def _attempt(self, connection: Connection, transaction: RootTransaction, job: WriteJob) -> None:
        """Run one work in a savepoint; only an error of the transaction itself ends the other works too."""
        before, job.error = log.mark(connection), None
        try:
            with connection.begin_nested():
                job.result = job.work(connection)
                if not transaction.is_active:
                    raise InternalError("a work tried to roll back", hint="please report it")
                if not self._backend.can_commit(connection):
                    # PostgreSQL does nothing more after an error; leaving by an exception goes back to the savepoint.
                    raise InternalError("a work went on after a statement of it failed", hint="please report it")
        except Exception as error:
            job.error = translate(error)
            if not connection.invalidated:
                log.go_back(connection, before)
            if not transaction.is_active and not connection.invalidated:
                raise InternalError("a work ended the transaction that it shares", hint="please report it") from error
            if connection.invalidated or not self._backend.can_commit(connection):
                hint = "nothing was written; try again"
                raise DatabaseUnavailableError("the connection to the database broke", hint=hint) from error

    def _check_commit(self, _connection: Connection) -> None:
        """Stop a work that commits, since the transaction belongs to other works too."""
        if not self._is_committing:
            raise InternalError("a work tried to commit", hint="please report it")

    def _commit(self, connection: Connection, transaction: RootTransaction) -> None:
        if not self._backend.can_commit(connection):
            self._drop()
            raise DatabaseUnavailableError("the transaction ended by itself", hint="nothing was written; try again")
        try:
            self._is_committing = True
            with self.traffic.waiting_for_disk():
                transaction.commit()
        except SQLAlchemyError as error:
            is_refusal = self._backend.is_refusal(error)
            self._drop()
            if is_refusal:
                raise translate(error) from error
            hint = "read whether it is there before you repeat it"
            what = f"the database did not say whether the change was written: {cause_of(error)}"
            raise OutcomeUnknownError(what, hint=hint) from error
        finally:
            self._is_committing = False

    def _drop(self, *, is_broken: bool = True) -> None:
        """Close the connection and discard what is not committed."""
        self.recent.forget()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if is_broken and not connection.invalidated:
                connection.invalidate()
            connection.close()
        except SQLAlchemyError:
            pass  # it is gone, which is what was wanted


_MOST = 2000
_MOST_BYTES = 8 * 2**20


class RecentEntries:
    """The newest entries of this process, without gaps from other writers; for any thread."""

    def __init__(self, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._lock = threading.Lock()
        self._entries: deque[StoredEntry] = deque()
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0  # of all bodies

    def add(self, entries: Sequence[StoredEntry]) -> None:
        """Add the entries of one transaction, after its COMMIT."""
        with self._lock:
            if self._entries and entries[0].seq != self._entries[-1].seq + 1:
                self._clear()
            self._entries.extend(entries)
            self._bytes += sum(len(entry.body) for entry in entries)
            while len(self._entries) > self._most or self._bytes > self._most_bytes:
                self._bytes -= len(self._entries.popleft().body)

    def forget(self) -> None:
        """Forget all entries: a server that took over may lack the last commits."""
        with self._lock:
            self._clear()

    def after(self, seq: int) -> list[StoredEntry]:
        """Return the entries after a number without a gap; empty if only the database knows them."""
        with self._lock:
            if not self._entries or seq + 1 < self._entries[0].seq:
                return []
            found = list(takewhile(lambda entry: entry.seq > seq, reversed(self._entries)))
        return found[::-1]

    def _clear(self) -> None:
        self._entries.clear()
        self._bytes = 0
