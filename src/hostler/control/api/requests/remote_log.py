"""Log lines about unauthenticated clients, limited per address, because their requests cost them nothing."""

from __future__ import annotations

from collections.abc import Callable

from hostler.control.access.limits import Limiter, Rate, RateLimits, address_block

__all__ = ["RemoteLog"]

_LINES = Rate(20)  # enough to see the pattern; metrics count all of them


class RemoteLog:
    """Writes these lines. ``now`` returns nanoseconds."""

    def __init__(self, tell: Callable[[str], None], now: Callable[[], int]) -> None:
        self._tell = tell
        self._now = now
        self._lines = Limiter(RateLimits(reads=_LINES))

    def tell(self, line: str, remote: str) -> None:
        """Write a line about a client's address, unless that address had too many lines lately."""
        if not self._lines.take(address_block(remote), self._now(), is_change=False):
            self._tell(line)
