"""Trying again: how often, how long between, and when not."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from hostler.errors import InputError
from hostler.kube.api.failures import ApiError, is_worth_retrying
from hostler.runtime.backoff import Backoff, BackoffRules, retry_call
from hostler.runtime.transport import TransportError
from tests.kube.api.virtual_time import run_virtually

USUAL = BackoffRules()
DOWN = TransportError("down", may_have_acted=False)
BUSY = ApiError(429, "TooManyRequests", "later", retry_after_s=20)


def attempt(*outcomes, rules=USUAL, **arguments):
    """Make a call whose outcomes are given; return its result and the times of its tries."""
    left, times = list(outcomes), []

    async def call() -> str:
        times.append(asyncio.get_running_loop().time())
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def main() -> str:
        return await retry_call(call, rules, random.Random(3), **{"is_worth": is_worth_retrying} | arguments)

    try:
        return run_virtually(main()), times
    except Exception as error:
        return error, times


def test_a_call_that_works_is_made_once():
    assert attempt("done") == ("done", [0.0])


def test_waits_double_up_to_the_limit_and_are_never_all_alike():
    result, times = attempt(*[DOWN] * 9, "done", rules=BackoffRules(first_s=1, limit_s=8))
    assert result == "done"
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    for wait, most in zip(waits, [1, 2, 4, 8, 8, 8, 8, 8, 8], strict=True):
        assert most / 2 <= wait <= most
    assert len({round(wait, 6) for wait in waits[3:]}) == 6


def test_the_server_says_how_long_to_wait():
    _, times = attempt(BUSY, "done")
    assert 20 <= times[1] <= 22


def test_what_time_does_not_cure_is_raised_at_once():
    for error in (ApiError(409, "Conflict", "no"), ApiError(403, "Forbidden", "no"), InputError("no")):
        assert attempt(error, "done") == (error, [0.0])


def test_an_error_that_is_no_failure_of_the_call_is_not_held_back():
    error, times = attempt(ZeroDivisionError("a bug"))
    assert isinstance(error, ZeroDivisionError)
    assert len(times) == 1


def test_the_last_error_is_raised_when_all_tries_are_used():
    error, times = attempt(DOWN, BUSY, DOWN, "done", rules=BackoffRules(max_tries=3))
    assert error is DOWN
    assert len(times) == 3


def test_a_caller_says_what_is_worth_another_try():
    conflict = ApiError(409, "Conflict", "no")
    result, times = attempt(conflict, "done", is_worth=lambda error: error is conflict)
    assert (result, len(times)) == ("done", 2)


def test_a_reset_begins_with_the_first_wait():
    backoff = Backoff(BackoffRules(first_s=1, spread=0), random.Random(1))
    assert [backoff.next_wait_s() for _ in range(3)] == [1, 2, 4]
    backoff.reset()
    assert backoff.next_wait_s() == 1


def test_an_outage_of_a_day_costs_few_calls():
    _, times = attempt(*[DOWN] * 4000, "done")
    assert times[-1] == pytest.approx(4000 * 22.5, rel=0.1)
