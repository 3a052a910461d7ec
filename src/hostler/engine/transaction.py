"""A transaction on the books: an undo log of bookings, so that a trial leaves not one bit changed.

Used for preemption dry runs, gangs and what-ifs. Everything that is booked or taken off inside is put back, last first,
unless ``commit`` was called.
"""

from __future__ import annotations

from types import TracebackType

from hostler.engine.shapes import Shape
from hostler.engine.state import State

__all__ = ["Transaction"]


class Transaction:
    """Bookings that can be taken back."""

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
        """Take over a booking that a kernel has made."""
        self._log.append((1, row, shape, devices, uid))

    def unbook(self, uid: str) -> None:
        """Take a placed guest off the books."""
        record = self._state.guests[uid]
        row = self._state.cluster.row_of.get(record.host)
        if row is None or uid not in self._state.cluster.guests_on[row]:
            return
        shape = self._state.shape(record)
        self._state.cluster.unbook(row, shape, record.devices, uid)
        self._log.append((-1, row, shape, record.devices, uid))

    def rebook(self, uid: str) -> None:
        """Put a placed guest back that this transaction took off."""
        record = self._state.guests[uid]
        row = self._state.cluster.row_of.get(record.host)
        if row is None or uid in self._state.cluster.guests_on[row]:
            return
        shape = self._state.shape(record)
        self._state.cluster.book(row, shape, record.devices, uid)
        self._log.append((1, row, shape, record.devices, uid))

    def mark(self) -> int:
        """Return a position to which ``undo`` can go back."""
        return len(self._log)

    def undo(self, mark: int = 0) -> None:
        """Take back everything since a mark, last first."""
        cluster = self._state.cluster
        while len(self._log) > mark:
            sign, row, shape, devices, uid = self._log.pop()
            if sign > 0:
                cluster.unbook(row, shape, devices, uid)
            else:
                cluster.book(row, shape, devices, uid)

    def commit(self) -> None:
        """Keep everything."""
        self._log.clear()
