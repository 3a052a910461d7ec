"""The time for removing history: what is removed because of a wrong clock does not come back.

The earlier of the leader's and the database's clock counts, so no replica removes what others wrote today. Both may be
the same clock, or leap together. So the progress of removal is stored, and advances by elapsed time. A leap of the
clock is followed little by little, mostly within a few days. That leaves time to correct a clock. If the clock was
right, as after a long standstill, old history still goes in the end.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hostler.control.books.books import Books
from hostler.control.fleet.times import SECOND
from hostler.control.store import Connection, Database
from hostler.control.store.history import clock, lease
from hostler.control.store.rows import documents
from hostler.control.store.rows.documents import DocumentRow

__all__ = ["NAME", "HistoryTime", "RetentionProgress", "advance"]

NAME = "history-time"  # of the setting that says how far forgetting has come
_DAY = 86400 * SECOND
_MILLISECOND = 1_000_000


class RetentionProgress(msgspec.Struct, frozen=True):
    """How far removal has come, in nanoseconds since 1970."""

    reached_ns: int


_REACHED = msgspec.json.Decoder(RetentionProgress)


class HistoryTime:
    """The time for removal, as a replica knows it while it leads."""

    def __init__(
        self,
        database: Database,
        books: Books,
        *,
        clock: Callable[[], int],
        steady: Callable[[], int],
        tell: Callable[[str], None],
    ) -> None:
        self._database = database
        self._books = books
        self._clock = clock
        self._steady = steady
        self._report = tell
        self._epoch = 0
        self._looked = 0  # when it was asked last in this epoch, by the steady clock
        self._was_told = False

    async def advance(self) -> int:
        """Advance by the time since the last call, store that and return it; LeaseLostError."""
        epoch, steady = self._books.epoch, self._steady()
        passed_ns = steady - self._looked if self._epoch == epoch else 0

        def work(connection: Connection) -> tuple[int, int]:
            lease.check_epoch(connection, epoch)
            clock_ns = min(self._clock(), clock.read_ms(connection) * _MILLISECOND)
            return advance(connection, clock_ns, passed_ns), clock_ns

        reached, clock_ns = await self._database.write(work)
        self._epoch, self._looked = epoch, steady
        self._tell((clock_ns - reached) / _DAY)
        return reached

    def _tell(self, behind_days: float) -> None:
        if behind_days >= 1 and not self._was_told:
            self._report(
                f"the clock is {behind_days:.0f} days ahead of the time that passed here: old things are removed "
                f"little by little; if the service did not stand still for so long, set the clock right"
            )
        self._was_told = behind_days >= 1


def advance(connection: Connection, clock_ns: int, passed_ns: int) -> int:
    """Return how far forgetting may go when some time passed, and write it down; the clock's time if nothing was."""
    row = documents.find(connection, "setting", "", NAME)
    if row is None:
        body = msgspec.json.encode(RetentionProgress(clock_ns))
        fresh = DocumentRow(project="", name=NAME, created_ns=clock_ns, updated_ns=clock_ns, body=body)
        documents.insert(connection, "setting", fresh)
        return clock_ns
    reached = _closer(_REACHED.decode(row.body).reached_ns, clock_ns, passed_ns)
    body = msgspec.json.encode(RetentionProgress(reached))
    documents.save(connection, "setting", msgspec.structs.replace(row, updated_ns=clock_ns, body=body))
    return reached


def _closer(reached: int, clock_ns: int, passed_ns: int) -> int:
    """Return a time closer to the clock's: by the elapsed time, and by a share of the leap."""
    lived = reached + passed_ns
    if clock_ns <= lived:
        return clock_ns
    return lived + (clock_ns - lived) * min(passed_ns, _DAY) // _DAY
