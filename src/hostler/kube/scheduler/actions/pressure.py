"""How many calls may be in flight: more while all goes well, half as many when the server is overloaded.

Additive increase, multiplicative decrease, and a circuit breaker on top. After several calls in a row without a
response, nothing is sent for a while; then one call at a time finds out whether the server is back. Pure: the caller
passes in the time. Used by every pool that writes.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Breaker", "Window"]

_SECOND = 1_000_000_000


class Window:
    """The number of calls that may be in flight."""

    def __init__(self, most: int, start: int = 16) -> None:
        self.most = most
        self._size = float(min(start, most))
        self._shrunk_at = -_SECOND
        self._paused_until = 0

    @property
    def size(self) -> int:
        """Return how many calls may be in flight."""
        return int(self._size)

    def grow(self) -> None:
        """Record a successful call."""
        self._size = min(float(self.most), self._size + 1.0 / self._size)

    def shrink(self, now: int, wait_s: float = 0.0) -> None:
        """Record an overload; the server may have said how long to wait."""
        if wait_s > 0:
            self._paused_until = max(self._paused_until, now + int(wait_s * _SECOND))
        if now - self._shrunk_at >= _SECOND:  # errors from one overload come together: they count once
            self._shrunk_at = now
            self._size = max(1.0, self._size / 2)

    def paused_for(self, now: int) -> float:
        """Return for how many seconds nothing may be sent."""
        return max(0, self._paused_until - now) / _SECOND


class Breaker:
    """Opens after ``patience`` calls in a row without a response; then single calls probe the server."""

    def __init__(
        self,
        patience: int = 5,
        first_s: float = 1.0,
        most_s: float = 30.0,
        *,
        on_open: Callable[[str], None] = lambda why: None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._patience = patience
        self._first_s = first_s
        self._most_s = most_s
        self._failures = 0
        self._openings = 0
        self._opened = 0  # consecutive failures
        self._closed_until = 0
        self._is_trying = False
        self._on_open = on_open
        self._on_close = on_close

    @property
    def is_open(self) -> bool:
        """Return whether the server counts as away."""
        return self._failures >= self._patience

    @property
    def openings(self) -> int:
        """Return how often the breaker opened."""
        return self._openings

    def wait_s(self, now: int) -> float:
        """Return for how many seconds no call may begin; while one call probes, the others wait."""
        if not self.is_open:
            return 0.0
        left = max(0, self._closed_until - now) / _SECOND
        return left or (self._first_s if self._is_trying else 0.0)

    def begin(self) -> None:
        """Record the start of a call."""
        if self.is_open:
            self._is_trying = True

    def succeed(self) -> None:
        """Record a response of any kind."""
        was_open = self.is_open
        self._failures = self._opened = 0
        self._is_trying = False
        if was_open:
            self._on_close()

    def fail(self, now: int) -> None:
        """Record a call without a response."""
        was_open = self.is_open
        self._failures += 1
        if not self.is_open or (was_open and not self._is_trying and now < self._closed_until):
            return  # one of many calls that were in flight when it opened
        self._is_trying = False
        if not was_open:
            self._openings += 1
            self._on_open(f"{self._failures} consecutive calls without a response")
        wait_s = min(self._most_s, self._first_s * 2**self._opened)
        self._opened += 1
        self._closed_until = now + int(wait_s * _SECOND)
