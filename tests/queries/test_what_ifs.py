"""What-ifs on a fork: what would become of guests, while the engine that was asked stays as it is."""

from __future__ import annotations

import pytest

from hostler.model import AskUse, Bind, GuestArrived, GuestLeft, HostJoined, Policy
from hostler.queries import try_at_once, try_to_the_end
from tests.queries.small_inputs import EVICTING, SPREAD, decided_engine, host, inputs_of, sized

ASKING = Policy(name="asking", ties=("name",), ask=AskUse(name="scorer"))
PREPARING = sized("needs", prepare=("disk",))


@pytest.fixture(params=["at once", "to the end"])
def tried(request):
    """Return a function that tries facts on a fork, and checks that the engine does not notice."""

    def outcome_of(engine, *facts):
        before = engine.checkpoint()
        fork = engine.fork()
        for fact in facts:
            fork.apply(fact)
        outcome = try_at_once(fork) if request.param == "at once" else try_to_the_end(fork, fork.now)
        assert engine.checkpoint() == before
        return outcome

    return outcome_of


def arrive(name, cpu=1, **spec):
    return GuestArrived(guest=sized(name, cpu, **spec))


def test_nothing_asked_is_an_empty_outcome(tried):
    outcome = tried(decided_engine(inputs_of()))
    assert (outcome.hosts, outcome.holds, outcome.evictions) == ({}, {}, [])


def test_guest_that_fits_gets_a_host(tried):
    engine = decided_engine(inputs_of(host("a"), sized("runs", 3, on="a")))
    outcome = tried(engine, arrive("new"))
    assert (outcome.hosts, outcome.holds) == ({"new": "a"}, {})


def test_guest_that_does_not_fit_is_held_with_reasons(tried):
    outcome = tried(decided_engine(inputs_of(host("a"))), arrive("huge", 5))
    assert outcome.hosts == {}
    assert [count.reason.text() for count in outcome.holds["huge"][-1].reasons] == ["insufficient: cpu"]


def test_guests_that_wait_are_decided_among_the_rest(tried):
    engine = decided_engine(inputs_of(host("a"), sized("runs", 4, on="a"), sized("waits", 3)))
    assert engine.decision("waits").host == ""
    assert tried(engine, GuestLeft(uid="runs")).hosts == {"waits": "a"}
    assert tried(engine, HostJoined(host=host("b"))).hosts == {"waits": "b"}


def test_victims_leave_and_are_named_with_their_preemptor(tried):
    engine = decided_engine(inputs_of(host("a"), sized("low", 3, on="a"), policy=EVICTING))
    outcome = tried(engine, arrive("high", 3, priority=10))
    assert outcome.hosts == {"high": "a"}
    assert [(one.guest.name, one.action.host) for one in outcome.evictions_for("high")] == [("low", "a")]
    assert outcome.evictions_for("low") == []


def test_question_to_outside_gets_no_answer(tried):
    outcome = tried(decided_engine(inputs_of(host("a"), policy=ASKING)), arrive("new"))
    assert outcome.hosts == {}


def test_only_a_try_to_the_end_prepares_guests():
    engine = decided_engine(inputs_of(host("a"), policy=SPREAD))
    engine.apply(GuestArrived(guest=PREPARING))
    assert try_at_once(engine.fork()).hosts == {}
    assert try_to_the_end(engine.fork(), 0).hosts == {"needs": "a"}


def test_explaining_and_ranking_leave_the_engine_as_it_is():
    engine = decided_engine(inputs_of(host("a"), host("b"), sized("runs", 3, on="a"), sized("huge", 5)))
    engine.apply(arrive("new", 2))
    before = engine.checkpoint()
    verdicts = engine.explain("new").verdicts
    ranking = engine.rank("new", ["a", "b", "nowhere"], drawn_for="new")
    assert engine.choose_devices("new", "b", drawn_for="new") == ()
    assert engine.checkpoint() == before
    assert [verdict.host for verdict in verdicts if verdict.fits] == [name for name, _ in ranking.order] == ["b"]
    assert set(ranking.rejected) == {"a"}
    assert [action.host for action in engine.step(0) if isinstance(action, Bind)] == ["b"]
