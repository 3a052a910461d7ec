"""A set of guests is placed: where all of them are, who had to go, and the sums."""

from __future__ import annotations

import msgspec
import pytest

from hostler.engine import find_policy
from hostler.engine.journals.journal import read_journal, replay
from hostler.errors import FactError
from hostler.model import Budget, Gang, Guest, Host, Quota, Selector, Tenancy, amounts, parse_amounts
from hostler.queries import OverfullHost, ResourceShare, find_overfull_hosts, place_guests, with_preemption
from hostler.queries.placement import EVICTED
from tests.queries.small_inputs import EVICTING, SPREAD, host, inputs_of, sized


def _hosts_of(placement):
    return {guest.name: guest.host for guest in placement.guests}


def test_pending_guests_are_placed_beside_those_that_run():
    placement = place_guests(inputs_of(host("a"), host("b"), sized("runs", 3, on="a"), sized("comes", 3)))
    assert _hosts_of(placement) == {"runs": "a", "comes": "b"}
    assert list(placement.decisions) == ["comes"]
    summary = placement.summary
    assert (summary.guests, summary.placed, summary.already_placed, summary.not_placed) == (2, 1, 1, 0)
    assert (summary.hosts, summary.hosts_used, summary.cpu) == (2, 2, ResourceShare(6000, 8000))
    assert (summary.cpu.percent, summary.memory.percent) == (75, None)


def test_guest_that_does_not_fit_has_a_decision_with_reasons():
    placement = place_guests(inputs_of(host("a"), sized("huge", 5)))
    assert _hosts_of(placement) == {"huge": ""}
    assert [count.reason.text() for count in placement.decisions["huge"].reasons] == ["insufficient: cpu"]
    assert placement.summary.not_placed == 1


@pytest.mark.parametrize(
    ("members", "not_placed"),
    [
        pytest.param((), 0, id="nothing"),
        pytest.param((host("a"),), 0, id="no guests"),
        pytest.param((sized("one"),), 1, id="no hosts"),
    ],
)
def test_empty_input_gives_an_empty_placement(members, not_placed):
    placement = place_guests(inputs_of(*members))
    assert placement.summary.not_placed == not_placed
    assert (placement.summary.placed, placement.evicted, placement.nominated) == (0, (), ())


def test_guest_without_a_uid_is_rejected_as_a_fact():
    with pytest.raises(FactError, match="uid"):
        place_guests(inputs_of(host("a"), Guest(name="nameless"), Guest(name="other")))


def test_same_input_gives_the_same_placement():
    guests = [sized(f"g{number}") for number in range(12)]
    made = [inputs_of(host("a", 9), host("b", 9), *guests, policy=find_policy("random")) for _ in "ab"]
    assert place_guests(made[0]) == place_guests(made[0]) == place_guests(made[1])
    seeded = msgspec.structs.replace(made[0], seed=1)
    assert _hosts_of(place_guests(seeded)) != _hosts_of(place_guests(made[0]))


def test_evicted_guests_are_gone_and_charged_to_their_budget():
    tenancy = Tenancy(budgets=(Budget(name="none", selector=Selector()),))
    guests = (sized("low", 3, on="a"), sized("high", 3, priority=10))
    placement = place_guests(inputs_of(host("a"), *guests, policy=EVICTING, tenancy=tenancy))
    assert _hosts_of(placement) == {"high": "a"}
    (eviction,) = placement.evicted
    assert (eviction.guest, eviction.host, eviction.preemptor) == ("low", "a", "high")
    assert eviction.broken_budgets == ("none",)
    assert [(one.guest, one.host, one.victims) for one in placement.nominated] == [("high", "a", ("low",))]
    assert (placement.summary.evicted, placement.summary.placed) == (1, 1)


def test_budgets_that_are_left_are_those_after_the_run():
    tenancy = Tenancy(budgets=(Budget(name="one", selector=Selector(), allowed=1),))
    guests = (sized("low", 3, on="a"), sized("high", 3, priority=10))
    placement = place_guests(inputs_of(host("a"), *guests, policy=EVICTING, tenancy=tenancy))
    assert [budget.allowed for budget in placement.tenancy.budgets] == [0]
    assert placement.evicted[0].broken_budgets == ()


def test_guest_placed_by_the_run_and_evicted_again_waits():
    """The first borrows what its tenant is not guaranteed, and the second takes its own back."""
    reclaiming = msgspec.structs.replace(EVICTING, reclaim=True)
    tenancy = Tenancy(quotas=(Quota(tenant="borrower"), Quota(tenant="owner", min=amounts({"cpu": 4000}))))
    guests = (sized("first", 4, priority=5, tenant="borrower"), sized("second", 2, tenant="owner"))
    placement = place_guests(inputs_of(host("a"), *guests, policy=reclaiming, tenancy=tenancy))
    assert _hosts_of(placement) == {"first": "", "second": "a"}
    assert placement.decisions["first"].state == EVICTED
    assert placement.decisions["first"].note.startswith("placed on a, then ")
    assert (placement.summary.placed, placement.summary.evicted, placement.summary.not_placed) == (1, 1, 0)


@pytest.mark.parametrize(("evicts", "would"), [(True, True), (False, False)])
def test_placement_says_whether_evictions_would_help(evicts, would):
    low = sized("low", 3, on="a", priority=0 if evicts else 10)
    made = inputs_of(host("a"), low, sized("high", 3, priority=10))
    placement = place_guests(made, evicting=with_preemption(made.policies, is_on=True))
    assert (placement.would_evict, placement.evicted) == (would, ())


def test_incomplete_gang_waits_with_a_decision():
    tenancy = Tenancy(gangs=(Gang(name="crew", min_count=2),))
    placement = place_guests(inputs_of(host("a"), sized("first", gang="default/crew"), tenancy=tenancy))
    assert _hosts_of(placement) == {"first": ""}
    assert placement.decisions["first"].note


def test_journal_of_a_placement_replays():
    lines: list[bytes] = []
    progress: list[int] = []
    made = inputs_of(host("a"), sized("one"), sized("two", 9))
    placement = place_guests(made, journal=lines.append, advance=progress.append)
    replayed = replay(read_journal(lines))
    assert replayed.difference is None
    assert replayed.engine.decision("one").host == placement.decisions["one"].host == "a"
    assert sum(progress) == 2


def test_overfull_hosts_are_found_by_what_runs_there():
    full = Host(name="a", uid="a", capacity=parse_amounts({"cpu": 4, "guests": 1}))
    made = inputs_of(full, host("b"), sized("one", 3, on="a"), sized("two", 3, on="a"), sized("three", 4, on="b"))
    assert find_overfull_hosts(made) == [
        OverfullHost("a", "cpu", 6000, 4000),
        OverfullHost("a", "guests", 2, 1),
    ]


def test_preemption_is_turned_on_and_off_for_all_policies():
    (on,) = with_preemption([SPREAD], is_on=True, budgets="strict")
    assert on.preemption is not None
    assert on.preemption.budgets == "strict"
    assert with_preemption([on], is_on=False)[0].preemption is None
