"""The longest duration of blocks that should take milliseconds, including blocks that still run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Stalls"]

_LATELY_S = 60.0


class Stalls:
    """The longest times of the last minute. Of one thread."""

    def __init__(self, *, watch: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._begun: dict[object, float] = {}  # in the order in which they began
        self._ended: deque[tuple[float, float]] = deque()  # when, and how long it took; each longer than those after it

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Measure the time of a block."""
        key, begun = object(), self._watch()
        self._begun[key] = begun
        try:
            yield
        finally:
            del self._begun[key]
            now = self._watch()
            while self._ended and self._ended[-1][1] <= now - begun:
                self._ended.pop()
            self._ended.append((now, now - begun))
            self._forget(now)

    def longest_s(self) -> float:
        """Return the longest time of a block that ended within the last minute or has not ended, in seconds."""
        now = self._watch()
        self._forget(now)
        ended = self._ended[0][1] if self._ended else 0.0
        return max(ended, now - next(iter(self._begun.values()), now))

    def _forget(self, now: float) -> None:
        while self._ended and self._ended[0][0] < now - _LATELY_S:
            self._ended.popleft()
