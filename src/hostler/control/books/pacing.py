"""How long computations stand back for writes: engines pause between units of work, and here the pause is made.

A create waits for the interpreter at each of its statements. What-ifs, explanations and searches for gangs have time:
while a write is under way they wait, at most ``_STAND_BACK_S``, and then compute for at least ``_TURN_S`` whatever
else is going on. So under endless writes a question still has a fifth of the time that it would have alone.

Of the lines for questions one computes at a time: each has the interpreter for ``_TURN_S``, then it is the other's
turn. One that does not pause keeps the other waiting for ``_PATIENCE_S`` and no longer: then both compute. Decisions
never wait for questions.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from hostler.control.store.traffic import Traffic

__all__ = ["Pace", "Turns"]

_STAND_BACK_S = 0.02
_TURN_S = 0.005
_PATIENCE_S = 0.05


class Turns:
    """Which of several threads computes; they come in the order in which they asked."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: deque[object] = deque()  # the first one computes

    def take(self, patience_s: float) -> bool:
        """Wait for a turn, for so long at most; say whether it came. Only who has a turn gives it back."""
        ticket = object()
        with self._changed:
            self._line.append(ticket)
            has_turn = self._changed.wait_for(lambda: self._line[0] is ticket, patience_s)
            if not has_turn:
                self._line.remove(ticket)
        return has_turn

    def give(self) -> None:
        """End a turn."""
        with self._changed:
            self._line.popleft()
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """Return how many threads wait for their turn."""
        return max(len(self._line) - 1, 0)

    @property
    def is_wanted(self) -> bool:
        """Say whether another thread waits for its turn."""
        return self.waiting > 0


class Pace:
    """Pauses of one thread that computes. With ``turns`` it computes only while it has a turn."""

    def __init__(
        self,
        traffic: Traffic,
        turns: Turns | None = None,
        *,
        stand_back_s: float = _STAND_BACK_S,
        watch: Callable[[], float] = time.monotonic,
    ) -> None:
        self._traffic = traffic
        self._turns = turns
        self._stand_back_s = stand_back_s
        self._watch = watch
        self._turn_ends = 0.0
        self._has_turn = False

    def __enter__(self) -> Pace:
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._give()

    def pause(self) -> None:
        """Stand back if a write is under way, and let another thread have its turn."""
        is_busy = self._traffic.is_busy
        if not is_busy and (self._turns is None or not self._turns.is_wanted):
            return
        if self._watch() < self._turn_ends:
            return
        self._give()
        if is_busy:
            self._traffic.wait_until_idle(self._stand_back_s)
        self._take()
        self._turn_ends = self._watch() + _TURN_S

    def _take(self) -> None:
        self._has_turn = self._turns is not None and self._turns.take(_PATIENCE_S)

    def _give(self) -> None:
        if self._turns is not None and self._has_turn:
            self._turns.give()
        self._has_turn = False
