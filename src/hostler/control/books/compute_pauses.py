"""Pauses of computations while writes run: engines pause between units of work.

A request needs the interpreter at each of its statements. Searches for gangs and questions to twins can wait: while a
write runs they pause for at most ``_STAND_BACK_S``, and then compute for at least ``_TURN_S``. So under endless writes
a search still has a fifth of its usual time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hostler.control.store.writes.traffic import Traffic

__all__ = ["ComputePauses"]

_STAND_BACK_S = 0.02
_TURN_S = 0.005


class ComputePauses:
    """Pauses of computing threads. Each thread has its own turn, so one object can serve several."""

    def __init__(
        self, traffic: Traffic, *, stand_back_s: float = _STAND_BACK_S, watch: Callable[[], float] = time.monotonic
    ) -> None:
        self._traffic = traffic
        self._stand_back_s = stand_back_s
        self._watch = watch
        self._turn = threading.local()

    def pause(self) -> None:
        """Pause if a write runs and this thread has had its turn."""
        if not self._traffic.is_busy or self._watch() < getattr(self._turn, "ends", 0.0):
            return
        self._traffic.wait_until_idle(self._stand_back_s)
        self._turn.ends = self._watch() + _TURN_S
