"""Copies of a guest are counted beside everything else, by placements or by what hosts' limits of guests leave."""

from __future__ import annotations

import msgspec
import pytest

from hostler.model import Guest, Host, parse_amounts
from hostler.queries import Fit, count_copies
from tests.queries.small_inputs import EVICTING, host, inputs_of, sized

LIMITED = Host(name="limited", uid="limited", capacity=parse_amounts({"cpu": 4, "guests": 3}))
NOTHING = Guest(name="nothing", uid="nothing")


def _counts(fit: Fit):
    return fit.count, dict(fit.per_host), fit.is_limit


def test_copies_are_counted_beside_running_and_pending_guests():
    made = inputs_of(host("a"), host("b"), sized("runs", 2, on="a"), sized("comes", 1), sized("huge", 9))
    fit = count_copies(made, sized("copy"), most=100)
    assert (fit.count, fit.is_limit, fit.is_by_guests_alone) == (5, False, False)
    assert sum(count or 0 for _, count in fit.per_host) == 5
    assert (fit.pending, fit.pending_placed) == (2, 1)
    assert fit.next is not None
    assert [count.reason.text() for count in fit.next.reasons] == ["insufficient: cpu"]


@pytest.mark.parametrize("most", [1, 3])
def test_counting_stops_at_most(most):
    fit = count_copies(inputs_of(host("a")), sized("copy"), most=most)
    assert _counts(fit) == (most, {"a": most}, True)
    assert fit.next is None


def test_many_copies_are_counted_over_several_batches():
    progress: list[int] = []
    fit = count_copies(inputs_of(host("a", 300), host("b", 100)), sized("copy"), most=10_000, advance=progress.append)
    assert _counts(fit) == (400, {"a": 300, "b": 100}, False)
    assert [name for name, _ in fit.per_host] == ["a", "b"], "most first"
    assert len(progress) > 1


@pytest.mark.parametrize(
    "members",
    [pytest.param((), id="no hosts"), pytest.param((host("a", 1),), id="too small")],
)
def test_copy_that_fits_nowhere_counts_zero_with_a_decision(members):
    fit = count_copies(inputs_of(*members), sized("copy", 2), most=10)
    assert _counts(fit) == (0, {}, False)
    assert fit.next is not None
    assert fit.next.host == ""


def test_guest_without_requests_is_bound_by_limits_of_guests():
    fit = count_copies(inputs_of(LIMITED, sized("runs", on="limited")), NOTHING, most=100)
    assert _counts(fit) == (2, {"limited": 2}, False)
    assert fit.is_by_guests_alone
    assert fit.next is not None
    assert [count.reason.text() for count in fit.next.reasons] == ["insufficient: guests"]


def test_guest_without_requests_fits_any_number_of_times_without_limit():
    fit = count_copies(inputs_of(host("free"), LIMITED), NOTHING, most=100)
    assert _counts(fit) == (None, {"free": None, "limited": 3}, False)
    assert fit.next is None


def test_policies_that_preempt_evict_nobody_for_copies():
    made = inputs_of(host("a"), sized("low", 3, on="a"), policy=EVICTING)
    assert count_copies(made, sized("copy", priority=10), most=10).count == 1
    pending = inputs_of(host("a"), sized("low", 3), policy=EVICTING)
    fit = count_copies(pending, sized("copy", priority=10), most=10)
    assert (fit.count, fit.pending_placed) == (1, 1)


def test_count_is_the_same_each_time():
    made = inputs_of(host("a"), host("b"), sized("comes"))
    assert count_copies(made, sized("copy"), most=9) == count_copies(made, sized("copy"), most=9)
    other = msgspec.structs.replace(made, hosts=made.hosts[:1])
    assert count_copies(other, sized("copy"), most=9).count == 3
