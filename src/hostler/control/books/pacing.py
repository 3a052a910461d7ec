"""How long computations stand back for writes: engines pause between units of work, and here the pause is made.

A create waits for the interpreter at each of its statements. Searches for gangs and looks at twins have time: while a
write is under way they wait, at most ``_STAND_BACK_S``, and then compute for at least ``_TURN_S`` whatever else is
going on. So under endless writes a search still has a fifth of the time that it would have alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hostler.control.store.traffic import Traffic

__all__ = ["Pace"]

_STAND_BACK_S = 0.02
_TURN_S = 0.005


class Pace:
    """Pauses of threads that compute; each goes by its own turn, and one may serve several."""

    def __init__(
        self, traffic: Traffic, *, stand_back_s: float = _STAND_BACK_S, watch: Callable[[], float] = time.monotonic
    ) -> None:
        self._traffic = traffic
        self._stand_back_s = stand_back_s
        self._watch = watch
        self._turn = threading.local()

    def pause(self) -> None:
        """Stand back if a write is under way and this thread has had its turn."""
        if not self._traffic.is_busy or self._watch() < getattr(self._turn, "ends", 0.0):
            return
        self._traffic.wait_until_idle(self._stand_back_s)
        self._turn.ends = self._watch() + _TURN_S
