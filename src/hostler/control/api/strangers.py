"""What the log says of strangers: so many lines for each address, since what they send costs them nothing."""

from __future__ import annotations

from collections.abc import Callable

from hostler.control.access.limits import Limiter, Limits, Rate, place_of

__all__ = ["Strangers"]

_LINES = Rate(20)  # enough to see what somebody does; metrics count all of it


class Strangers:
    """Tells of them. ``now`` gives nanoseconds."""

    def __init__(self, tell: Callable[[str], None], now: Callable[[], int]) -> None:
        self._tell = tell
        self._now = now
        self._lines = Limiter(Limits(reads=_LINES))

    def tell(self, line: str, remote: str) -> None:
        """Write a line about somebody from an address, unless there were too many of late."""
        if not self._lines.take(place_of(remote), self._now(), is_change=False):
            self._tell(line)
