"""Limits for concurrent what-ifs and explanations: each may take seconds, and few threads compute them.

A project has one share for all of its keys, so more keys do not raise its limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hostler.control.access.errors import TooManyRequestsError
from hostler.control.access.limits import Limiter, Rate, RateLimits

__all__ = ["EXPLAINED", "QuestionLimits"]

_OF_KEY = 2  # one is thought about while the next comes
_OF_PROJECT = 4  # two keys of one project do not wait for each other
_EXPLAINED_AT_ONCE = 4
EXPLAINED = Rate(300)  # for one project, a minute
_RETRY_S = 1
_LATER = "try again when one is answered"


class QuestionLimits:
    """Counts what-ifs by key and by project, and explanations by project."""

    def __init__(self, explained: Rate | None = None) -> None:
        self._open: Counter[str] = Counter()
        self._explained = Limiter(RateLimits(reads=explained))

    @contextmanager
    def turn(self, principal: str, projects: Iterable[str] = ()) -> Iterator[None]:
        """Count a what-if while the block runs; TooManyRequestsError."""
        bounds = [(f"what-ifs of key {principal}", _OF_KEY, f"{_OF_KEY} what-ifs of this key are running")]
        for project in projects:
            what = f"what-ifs of project {project}"
            bounds.append((what, _OF_PROJECT, f"{_OF_PROJECT} {what} are running"))
        with self._counted(bounds):
            yield

    @contextmanager
    def explanation(self, project: str, now_ns: int) -> Iterator[None]:
        """Count the explanation of a VM while the block runs; TooManyRequestsError."""
        name = f"explanations of project {project}"
        wait_s = self._explained.take(name, now_ns, is_change=False)
        if wait_s:
            message = f"more explanations than project {project} may ask for"
            raise TooManyRequestsError(message, retry_after_s=wait_s, hint="ask less often")
        with self._counted([(name, _EXPLAINED_AT_ONCE, f"{_EXPLAINED_AT_ONCE} {name} are running")]):
            yield

    @contextmanager
    def _counted(self, bounds: Sequence[tuple[str, int, str]]) -> Iterator[None]:
        """Count one more of each (name, limit, message), or of none."""
        for name, most, message in bounds:
            if self._open[name] >= most:
                raise TooManyRequestsError(message, retry_after_s=_RETRY_S, hint=_LATER)
        names = [name for name, _, _ in bounds]
        self._open.update(names)
        try:
            yield
        finally:
            self._open.subtract(names)
            for name in names:
                if not self._open[name]:
                    del self._open[name]

    def count(self, what: str) -> int:
        """Return how many questions run whose name has this prefix."""
        return sum(count for name, count in self._open.items() if name.startswith(what))
