"""Retries: random exponential waits, never shorter than the other side requested.

A call that fails for a reason that time may cure is made again. Waits double up to a limit, so an outage of hours costs
two calls a minute. Errors carry what the other side asked for in ``retry_after_s``: API servers under load, and control
planes that start or stop. Used by the Kubernetes client and its reflectors, and by agents.

Invariant: every wait draws from the random source that was passed in, once, and once more if the other side asked for
a wait, so that runs in virtual time repeat.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from hostler.errors import HostlerError

__all__ = ["Backoff", "BackoffRules", "retry_call"]

T = TypeVar("T")


class BackoffRules(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited between tries, and how many are made."""

    first_s: float = 1.0
    limit_s: float = 30.0
    factor: float = 2.0
    # This part of each wait is random: below zero it is taken off the wait, above zero it is added.
    spread: float = -0.5
    asked_spread: float = 0.1  # added to what the other side asked for, so that not all come back at once
    asked_limit_s: float = math.inf  # another server may answer by then: more is not believed
    max_tries: int = 0  # 0: for ever


class Backoff:
    """The waits of one sequence of failures."""

    def __init__(self, rules: BackoffRules, random: random.Random) -> None:
        self._rules = rules
        self._random = random
        self._next_s = rules.first_s

    def next_wait_s(self, asked_s: float | None = None, *, longest_s: float = math.inf) -> float:
        """Return how long to wait now: at least what the other side asked for.

        ``longest_s`` bounds the wait before its random part, and those that follow grow from there.
        """
        rules = self._rules
        base_s = min(self._next_s, longest_s)
        self._next_s = min(base_s * rules.factor, rules.limit_s)
        wait_s = base_s * (1 + rules.spread * self._random.random())
        if not asked_s:
            return wait_s
        return max(wait_s, min(asked_s, rules.asked_limit_s) * (1 + rules.asked_spread * self._random.random()))

    def reset(self) -> None:
        """Start over, after a success."""
        self._next_s = self._rules.first_s


async def retry_call(
    call: Callable[[], Awaitable[T]],
    rules: BackoffRules,
    random: random.Random,
    *,
    is_worth: Callable[[Exception], bool],
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
            asked_s = error.retry_after_s
        await asyncio.sleep(backoff.next_wait_s(asked_s))
