"""Limits: what is let through, how long callers wait, and how much is remembered."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.control.access.errors import TooManyRequestsError
from hostler.control.access.limits import OFF, FailureGuard, LeastRecentlyUsed, Limiter, Rate, RateLimits, parse_rate
from hostler.errors import InputError
from tests.control.access.principals import S

rates = st.builds(Rate, st.integers(1, 20), st.integers(1, 60))
gaps = st.lists(st.integers(0, 5 * S), min_size=1, max_size=80)


@given(rates, gaps)
def test_no_window_lets_more_through_than_the_budget(rate, gaps):
    limiter, now, passed = Limiter(RateLimits(changes=rate)), 0, []
    for gap in gaps:
        now += gap
        if limiter.take("me", now, is_change=True) == 0:
            passed.append(now)
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            window_ns = passed[last] - passed[first]
            assert (last - first + 1) * rate.per_s * S <= rate.count * (rate.per_s * S + window_ns)


@given(rates)
def test_rounding_never_raises_a_budget(rate):
    assert rate.interval_ns * rate.count >= rate.per_s * S


@given(rates, gaps)
def test_caller_that_waits_as_asked_is_let_through(rate, gaps):
    limiter, now = Limiter(RateLimits(reads=rate)), 0
    for gap in gaps:
        now += gap
        wait = limiter.take("me", now, is_change=False)
        if wait:
            assert wait <= rate.per_s // rate.count + 1
            now += wait * S
            assert limiter.take("me", now, is_change=False) == 0


@given(rates)
def test_the_whole_budget_can_be_used_at_once_and_again_later(rate):
    limiter = Limiter(RateLimits(changes=rate))
    for now in (0, (rate.per_s + 1) * S):
        assert [limiter.take("me", now, is_change=True) for _ in range(rate.count)] == [0] * rate.count
        assert limiter.take("me", now, is_change=True) > 0


def test_principals_and_kinds_of_calls_are_counted_apart():
    limiter = Limiter(RateLimits(changes=Rate(1), reads=Rate(1)))
    assert limiter.take("a", 0, is_change=True) == 0
    assert limiter.take("a", 0, is_change=True) == 60
    assert limiter.take("a", 0, is_change=False) == 0
    assert limiter.take("b", 0, is_change=True) == 0
    with pytest.raises(TooManyRequestsError, match="more changes") as caught:
        limiter.check("a", S, is_change=True)
    assert (caught.value.retry_after_s, caught.value.status, caught.value.retryable) == (59, 429, True)


def test_the_defaults_are_those_of_the_guide():
    limiter = Limiter()
    assert sum(limiter.take("a", 0, is_change=True) == 0 for _ in range(4000)) == 300
    assert sum(limiter.take("a", 0, is_change=False) == 0 for _ in range(4000)) == 3000
    guard = FailureGuard()
    for _ in range(10):
        guard.note_failure("10.0.0.1", 0)
    assert guard.retry_after_s("10.0.0.1", 0) == 0
    guard.note_failure("10.0.0.1", 0)
    assert guard.retry_after_s("10.0.0.1", 0) == 5


def test_limits_can_be_switched_off():
    limiter, guard = Limiter(OFF), FailureGuard(OFF)
    for _ in range(10_000):
        assert limiter.take("a", 0, is_change=True) == limiter.take("a", 0, is_change=False) == 0
        guard.note_failure("127.0.0.1", 0)
    guard.check("127.0.0.1", 0)


def test_a_clock_that_went_back_keeps_nobody_out_for_long():
    limiter = Limiter(RateLimits(changes=Rate(2, 60)))
    late = 10**6 * S
    for _ in range(3):
        limiter.take("a", late, is_change=True)
    assert limiter.take("a", 0, is_change=True) <= 30
    guard = FailureGuard(RateLimits(failures=Rate(1)))
    for _ in range(3):
        guard.note_failure("x", late)
    assert guard.retry_after_s("x", 0) == 0


def test_memory_is_bounded_and_the_least_recent_is_forgotten():
    limiter = Limiter(RateLimits(changes=Rate(1)), most=3)
    for name in ("a", "b", "c", "a", "d"):
        limiter.take(name, 0, is_change=True)
    assert [limiter.take(name, 0, is_change=True) > 0 for name in ("a", "c", "d")] == [True] * 3
    assert limiter.take("b", 0, is_change=True) == 0


def test_entry_in_use_is_not_forgotten():
    kept: LeastRecentlyUsed[int] = LeastRecentlyUsed(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), len(kept), "c" in kept) == (1, None, 2, True)


def test_each_lockout_is_twice_as_long_up_to_the_longest():
    guard, now, waits = FailureGuard(RateLimits(failures=Rate(1, 3600))), 0, []
    guard.note_failure("x", now)
    for _ in range(9):
        guard.note_failure("x", now)
        wait = guard.retry_after_s("x", now)
        with pytest.raises(TooManyRequestsError) as caught:
            guard.check("x", now)
        assert caught.value.retry_after_s == wait
        waits.append(wait)
        now += wait * S
        guard.check("x", now)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_quiet_time_ends_the_doubling():
    guard = FailureGuard(RateLimits(failures=Rate(1, 60)))
    for _ in range(4):
        guard.note_failure("x", 0)
    assert guard.retry_after_s("x", 0) == 20
    later = (20 + 301) * S
    guard.note_failure("x", later)
    guard.note_failure("x", later)
    assert guard.retry_after_s("x", later) == 5


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("testclient", "testclient", True),
    ],
)
def test_an_address_is_a_host_or_a_network_of_one(one, other, is_same):
    guard = FailureGuard(RateLimits(failures=Rate(1)))
    guard.note_failure(one, 0)
    guard.note_failure(one, 0)
    assert (guard.retry_after_s(other, 0) > 0) is is_same


@pytest.mark.parametrize(
    ("text", "rate"), [("300/60", Rate(300)), ("5", Rate(5)), ("1/3600", Rate(1, 3600)), ("off", None)]
)
def test_a_rate_is_read(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "-1", "x/60", "5/0", "5/-1", "1/2/3", "1/86401", "Off"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(InputError, match="is not a rate"):
        parse_rate(text)


def changes_of(limiter: Limiter, keys: int, *, project: str, tries: int) -> int:
    """Return how many changes of a project's keys, in turn, are let through at one moment."""
    count = 0
    for number in range(tries):
        with suppress(TooManyRequestsError):
            limiter.check(f"{project}-{number % keys}", 0, is_change=True, project=project)
            count += 1
    return count


def test_more_keys_give_a_project_no_more_changes():
    limiter = Limiter()
    assert changes_of(limiter, 100, project="loud", tries=3000) == 600
    assert changes_of(limiter, 1, project="quiet", tries=3000) == 300
    with pytest.raises(TooManyRequestsError, match="the keys of project loud"):
        limiter.check("one more", 0, is_change=True, project="loud")
    limiter.check("one more", 0, is_change=False, project="loud")


def test_key_of_all_projects_counts_for_none():
    limiter = Limiter(RateLimits(changes=None, project_changes=Rate(1)))
    for _ in range(10):
        limiter.check("admin", 0, is_change=True)
        limiter.check_size("", 2**20, 0)


def test_large_change_counts_as_several():
    limiter = Limiter(RateLimits(project_changes=Rate(10)))
    limiter.check_size("loud", 4095, 0)
    limiter.check_size("loud", 8 * 4096, 0)
    with pytest.raises(TooManyRequestsError) as rejected:
        limiter.check_size("loud", 3 * 4096, 0)
    assert rejected.value.retry_after_s == 6
    limiter.check_size("loud", 2 * 4096, 0)


def test_change_larger_than_the_whole_share_waits_for_all_of_it():
    limiter = Limiter(RateLimits(project_changes=Rate(10)))
    limiter.check_size("loud", 2**20, 0)
    with pytest.raises(TooManyRequestsError) as rejected:
        limiter.check_size("loud", 2**20, 0)
    assert rejected.value.retry_after_s == 60
    limiter.check_size("loud", 2**20, 60 * 10**9)
