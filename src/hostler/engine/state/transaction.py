"""Transactions: trial bookings on the engine's own columns, with an undo log. A trial that is undone leaves no trace.

Preemption dry runs, gangs and explanations try placements on the real columns, because a copy of a large cluster would
cost more than the trial. A transaction goes through these states:

    open ──book, note_booked, unbook, rebook──▶ open     each entry of the log is one booking or its reverse
    open ──undo(mark)──▶ open                            entries after the mark are reversed, the last one first
    open ──commit──▶ committed                           the log is emptied; the bookings stay
    open ──end of the ``with`` block, or an error──▶ undone

Invariants:

- Undoing in reverse order restores every column bit for bit: amounts, devices, counters of guests per domain, and the
  set of guests of a row. Only the touch log and the versions of rows grow, so cached verdicts are judged again, to the
  same result.
- Guest records, the queue and budgets do not change inside a transaction. The caller changes them after ``commit``.
- A booking that a kernel made must be registered with ``note_booked`` before anything else is booked, or the order of
  undoing is wrong.
- Transactions nest like a stack: an inner one is undone or committed before the outer one is undone.
"""

from __future__ import annotations

from types import TracebackType

from hostler.engine.cluster.shapes import Shape
from hostler.engine.state.state import State

__all__ = ["Transaction"]


class Transaction:
    """Bookings that are undone at the end of the ``with`` block unless ``commit`` was called."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._log: list[tuple[int, int, Shape, tuple[int, ...], str]] = []  # sign, row, shape, devices, uid

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def book(self, row: int, shape: Shape, devices: tuple[int, ...], uid: str) -> None:
        """Book a guest that is not placed."""
        self._state.cluster.book(row, shape, devices, uid)
        self._log.append((1, row, shape, devices, uid))

    def note_booked(self, row: int, shape: Shape, devices: tuple[int, ...], uid: str) -> None:
        """Add a booking that a kernel has made to the log."""
        self._log.append((1, row, shape, devices, uid))

    def unbook(self, uid: str) -> None:
        """Remove the booking of a placed guest; nothing happens if it has none on a present host."""
        record = self._state.guests[uid]
        row = self._state.cluster.row_of.get(record.host)
        if row is None or uid not in self._state.cluster.guests_on[row]:
            return
        shape = self._state.shape(record)
        self._state.cluster.unbook(row, shape, record.devices, uid)
        self._log.append((-1, row, shape, record.devices, uid))

    def rebook(self, uid: str) -> None:
        """Restore the booking of a placed guest that this transaction removed."""
        record = self._state.guests[uid]
        row = self._state.cluster.row_of.get(record.host)
        if row is None or uid in self._state.cluster.guests_on[row]:
            return
        shape = self._state.shape(record)
        self._state.cluster.book(row, shape, record.devices, uid)
        self._log.append((1, row, shape, record.devices, uid))

    def mark(self) -> int:
        """Return the current position in the log, for ``undo``."""
        return len(self._log)

    def undo(self, mark: int = 0) -> None:
        """Reverse everything since a mark, the last entry first."""
        cluster = self._state.cluster
        while len(self._log) > mark:
            sign, row, shape, devices, uid = self._log.pop()
            if sign > 0:
                cluster.unbook(row, shape, devices, uid)
            else:
                cluster.book(row, shape, devices, uid)

    def commit(self) -> None:
        """Keep all bookings."""
        self._log.clear()
