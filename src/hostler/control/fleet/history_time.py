"""What time it is for forgetting: history that was removed because a clock was wrong does not come back.

Of the leader's clock and the database's the earlier one counts, so no replica removes what the others wrote today. Both
may be the same clock, or leap together. So how far forgetting has come is written down, and goes on from there by time
that passes: a leap of the clock is made up for little by little, most of it in a few days. There is time to set a clock
right, and where it was right all the same, as after a long standstill, what is too old goes in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hostler.control.fleet.times import SECOND
from hostler.control.store import Connection, clock, documents, lease
from hostler.control.store.documents import Document

if TYPE_CHECKING:
    from hostler.control.fleet.fleet import Fleet

__all__ = ["NAME", "HistoryTime", "Reached", "advance"]

NAME = "history-time"  # of the setting that says how far forgetting has come
_DAY = 86400 * SECOND
_MILLISECOND = 1_000_000


class Reached(msgspec.Struct, frozen=True):
    """How far forgetting has come, in nanoseconds since 1970."""

    reached_ns: int


_REACHED = msgspec.json.Decoder(Reached)


class HistoryTime:
    """The time for forgetting, as a replica knows it while it leads."""

    def __init__(self) -> None:
        self._epoch = 0
        self._looked = 0  # when it was asked last in this epoch, by the clock that nobody sets
        self._was_told = False

    async def now(self, fleet: Fleet) -> int:
        """Go on by the time that passed since the last time, write that down and return it; LeaseLostError."""
        epoch, steady = fleet.books.epoch, fleet.steady()
        passed_ns = steady - self._looked if self._epoch == epoch else 0

        def work(connection: Connection) -> tuple[int, int]:
            lease.check_epoch(connection, epoch)
            clock_ns = min(fleet.clock(), clock.read_ms(connection) * _MILLISECOND)
            return advance(connection, clock_ns, passed_ns), clock_ns

        reached, clock_ns = await fleet.database.write(work)
        self._epoch, self._looked = epoch, steady
        self._tell(fleet, (clock_ns - reached) / _DAY)
        return reached

    def _tell(self, fleet: Fleet, behind_days: float) -> None:
        if behind_days >= 1 and not self._was_told:
            fleet.tell(
                f"the clock is {behind_days:.0f} days ahead of the time that passed here: old things are removed "
                f"little by little; if the service did not stand still for so long, set the clock right"
            )
        self._was_told = behind_days >= 1


def advance(connection: Connection, clock_ns: int, passed_ns: int) -> int:
    """Return how far forgetting may go when some time passed, and write it down; the clock's time if nothing was."""
    row = documents.find(connection, "setting", "", NAME)
    if row is None:
        body = msgspec.json.encode(Reached(clock_ns))
        fresh = Document(project="", name=NAME, created_ns=clock_ns, updated_ns=clock_ns, body=body)
        documents.insert(connection, "setting", fresh)
        return clock_ns
    reached = _closer(_REACHED.decode(row.body).reached_ns, clock_ns, passed_ns)
    body = msgspec.json.encode(Reached(reached))
    documents.save(connection, "setting", msgspec.structs.replace(row, updated_ns=clock_ns, body=body))
    return reached


def _closer(reached: int, clock_ns: int, passed_ns: int) -> int:
    """Return a time that is closer to the clock's: by what passed, and by the part of a leap that goes with it."""
    lived = reached + passed_ns
    if clock_ns <= lived:
        return clock_ns
    return lived + (clock_ns - lived) * min(passed_ns, _DAY) // _DAY
