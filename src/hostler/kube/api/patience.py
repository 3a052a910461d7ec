"""Trying again: jittered exponential waits, and never sooner than the server asked for.

A call that fails for a reason that time may cure is made again; waits double up to a limit, so an outage of hours
costs two calls a minute. ``Retry-After`` comes from API priority and fairness (429) and from servers
that are starting or stopping (503). Used by whoever must get a write done, and by ``reflector``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.failures import ApiError
from hostler.kube.api.transport import TransportError

__all__ = ["Backoff", "Patience", "is_worth_retrying", "with_patience"]

T = TypeVar("T")


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited between tries, and how many are made."""

    first_s: float = 1.0
    limit_s: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5  # this part of each wait is random
    max_tries: int = 0  # 0: for ever


class Backoff:
    """The waits of one sequence of failures."""

    def __init__(self, rules: Patience, random: random.Random) -> None:
        self._rules = rules
        self._random = random
        self._next_s = rules.first_s

    def next_wait_s(self, asked_s: float | None = None) -> float:
        """Return how long to wait now: at least what the server asked for, and a little more, so that we spread."""
        rules = self._rules
        base_s, self._next_s = self._next_s, min(self._next_s * rules.factor, rules.limit_s)
        wait_s = base_s * (1 - rules.jitter * self._random.random())
        return max(wait_s, asked_s * (1 + 0.1 * self._random.random())) if asked_s else wait_s

    def reset(self) -> None:
        """Begin anew: something worked."""
        self._next_s = self._rules.first_s


def is_worth_retrying(error: Exception) -> bool:
    """Say whether the same call may succeed later. Says nothing about whether it may be made twice."""
    return isinstance(error, TransportError) or (isinstance(error, ApiError) and error.is_worth_retrying)


async def with_patience(
    call: Callable[[], Awaitable[T]],
    rules: Patience,
    random: random.Random,
    *,
    is_worth: Callable[[Exception], bool] = is_worth_retrying,
) -> T:
    """Make a call until it works, fails for good, or all tries are used; the last error is raised as it is.

    A call whose second try would do harm must carry a precondition, or say so through ``is_worth``.
    """
    backoff = Backoff(rules, random)
    tries = 0
    while True:
        try:
            return await call()
        except HostlerError as error:
            tries += 1
            if tries == rules.max_tries or not is_worth(error):
                raise
            asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        await asyncio.sleep(backoff.next_wait_s(asked_s))
