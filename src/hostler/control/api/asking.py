"""How many what-ifs one caller has under way: each may take seconds, and few wait for all callers together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from hostler.control.access.errors import TooManyRequestsError

__all__ = ["Asking"]

_MOST_EACH = 2  # one is thought about while the next comes
_RETRY_S = 1


class Asking:
    """Counts what-ifs by who asks."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def turn(self, principal: str) -> Iterator[None]:
        """Count one as long as the block lasts; TooManyRequestsError."""
        if self._open[principal] >= _MOST_EACH:
            message = f"{_MOST_EACH} what-ifs of this key are under way"
            raise TooManyRequestsError(message, retry_after_s=_RETRY_S, hint="ask again when one is answered")
        self._open[principal] += 1
        try:
            yield
        finally:
            self._open[principal] -= 1
            if not self._open[principal]:
                del self._open[principal]
