"""Selection outside the kernels: the same rule in plain Python, for explanations and for answers from outside."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.engine.verdicts.selection import normalize_scores
from hostler.model import (
    Answered,
    Ask,
    AskUse,
    Bind,
    Expression,
    GuestArrived,
    GuestSpec,
    Host,
    Policy,
    ScorerUse,
    Term,
    WeightedTerm,
)
from tests.engine.fleet import QUICK, engine_with, guest, host, place, policy
from tests.engine.small_samples import engine_and_twin, fleets, several_devices, specs, tenants

CLASSIC = ["spread", "pack", "capacity_ratio", "first_fit", "least_loaded", "best_fit"]
# Policies that place and do nothing else; not random, because explanations show no draw.
UNDRAWN = [*CLASSIC, "round_robin", "fgd", "gpu_best_fit", "dot_product", "gpu_clustering", "gpu_packing"]

# -- normalising ------------------------------------------------------------------------------------------------------

raws = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=6)


def scaled(mode: str, values: list[int]) -> list[int]:
    """Scale as the words say, in exact fractions: to the best, reversed, or from the worst to the best."""
    low, high = min(values), max(values)
    if mode == "max":
        return [floor(Fraction(100 * v, high)) for v in values] if high > 0 else values
    if mode == "reverse_max":
        return [100 - floor(Fraction(100 * v, high)) for v in values] if high > 0 else [100] * len(values)
    if mode == "min_max":
        return [floor(Fraction(100 * (v - low), high - low)) for v in values] if high > low else [0] * len(values)
    return values


@pytest.mark.parametrize("mode", ["none", "max", "reverse_max", "min_max"])
@given(values=raws)
@QUICK
def test_scores_are_scaled_as_the_words_say(mode, values):
    assert normalize_scores(mode, np.array(values, dtype=np.int64)).tolist() == scaled(mode, values)


@pytest.mark.parametrize("mode", ["none", "max", "reverse_max", "min_max"])
def test_no_scores_at_all_can_be_scaled(mode):
    assert normalize_scores(mode, np.zeros(0, dtype=np.int64)).tolist() == []


@given(values=raws)
@QUICK
def test_scaling_from_worst_to_best_gives_nought_to_a_hundred(values):
    found = normalize_scores("min_max", np.array(values, dtype=np.int64)).tolist()
    assert min(found) == 0
    assert max(found) == (100 if len(set(values)) > 1 else 0)


# -- explanations choose as the kernels do ----------------------------------------------------------------------------


NORMALISED = ("preferred_hosts", "preferred_taints", "gpu_best_fit", "NodeAffinity", "TaintToleration")


@given(name=st.sampled_from(UNDRAWN), fleet=fleets, running=tenants, wanted=specs(several_devices))
@QUICK
def test_the_best_of_an_explanation_is_the_host_that_is_chosen(name, fleet, running, wanted):
    engine, _ = engine_and_twin(name, fleet, running)
    engine.apply(GuestArrived(guest=guest("g", wanted)))
    explained = engine.explain("g")
    (action,) = engine.step(0)
    if isinstance(action, Bind):
        best = explained.verdicts[0]
        assert (best.host, best.total) == (action.host, engine.decision("g").total)
    else:
        assert explained.feasible == ()


@given(name=st.sampled_from(UNDRAWN), fleet=fleets, running=tenants, wanted=specs(several_devices))
@QUICK
def test_totals_are_the_sum_of_the_parts_that_are_shown(name, fleet, running, wanted):
    engine, _ = engine_and_twin(name, fleet, running)
    engine.apply(GuestArrived(guest=guest("g", wanted)))
    uses = {use.shown_as or use.name: use.weight for use in policy(name).scorers}
    for verdict in engine.explain("g").verdicts:
        if not verdict.fits:
            continue
        own = [score for score in verdict.scores if verdict.preference is None or score.plugin in uses]
        first = [score.weighted for score in verdict.scores if score not in own]
        assert verdict.total == sum(score.weighted for score in own)
        assert verdict.preference in (None, sum(first))
        for score in own:
            if score.plugin not in NORMALISED:
                assert score.weighted == uses[score.plugin] * score.raw


@given(name=st.sampled_from(CLASSIC), fleet=fleets, running=tenants, wanted=specs())
@QUICK
def test_explained_scores_are_those_of_the_slow_twin(name, fleet, running, wanted):
    engine, twin = engine_and_twin(name, fleet, running)
    engine.apply(GuestArrived(guest=guest("g", wanted)))
    expected = twin.decide(wanted)
    verdicts = {v.host: v for v in engine.explain("g").verdicts if v.fits}
    assert {name: v.total for name, v in verdicts.items()} == pytest.approx(expected.totals)
    for machine, verdict in verdicts.items():
        assert {s.plugin: s.raw for s in verdict.scores} == pytest.approx(expected.raws[machine])
        assert {s.plugin: s.weighted for s in verdict.scores} == pytest.approx(expected.weighted[machine])


# -- answers from outside ---------------------------------------------------------------------------------------------


def asking(chosen: str, fleet: list[Host], running: list[tuple[GuestSpec, int]], **fields) -> Engine:
    """Return an engine whose policy asks an extender before it decides."""
    return engine_and_twin(policy(chosen, ask=AskUse("oracle", **fields)), fleet, running)[0]


@given(name=st.sampled_from([*UNDRAWN, "random"]), fleet=fleets, running=tenants, wanted=specs(several_devices))
@QUICK
def test_decision_without_the_answer_equals_one_without_asking(name, fleet, running, wanted):
    plain, _ = engine_and_twin(name, fleet, running)
    asker = asking(name, fleet, running, ignorable=True)
    for engine in (plain, asker):
        engine.apply(GuestArrived(guest=guest("g", wanted)))
    expected, *_ = plain.step(0)  # a policy that preempts may have more to say
    action, *_ = asker.step(0)
    if isinstance(action, Ask):
        asker.apply(Answered(uid="g", ask=action.ask, error="nobody is there"))
        action, *_ = asker.step(0)
    assert action == expected
    assert asker.decision("g").total == pytest.approx(plain.decision("g").total)


@given(
    name=st.sampled_from(UNDRAWN), fleet=fleets, running=tenants, wanted=specs(several_devices),
    weight=st.sampled_from([1, 7, -1]),
    points=st.lists(st.none() | st.integers(-50, 50), min_size=4, max_size=4),
)  # fmt: skip
@QUICK
def test_an_answer_decides_by_the_sum_of_its_own_and_the_policy_s_scores(name, fleet, running, wanted, weight, points):
    engine = asking(name, fleet, running, weight=weight)
    engine.apply(GuestArrived(guest=guest("g", wanted)))
    explained = engine.explain("g")
    (ask,) = engine.step(0)
    if not isinstance(ask, Ask):
        assert explained.feasible == ()
        return
    assert set(ask.hosts) == set(explained.feasible)
    scores = {machine: n for machine, n in zip("abcd", points, strict=True) if n is not None}
    engine.apply(Answered(uid="g", ask=ask.ask, scores=tuple(scores.items())))
    (action,) = engine.step(0)
    totals = {v.host: v.total + weight * scores[v.host] for v in explained.verdicts if v.fits and v.host in scores}
    if not totals:
        assert not isinstance(action, Bind)
        return
    best = max(totals.values())
    assert totals[action.host] == pytest.approx(best)
    assert engine.decision("g").total == pytest.approx(best)


def test_lots_are_drawn_alike_with_and_without_asking():
    hosts = [host(name, 10**6, 2**50) for name in "abcde"]
    plain = engine_with(hosts, "random", seed=3)
    asker = engine_with(hosts, policy("random", ask=AskUse("oracle", ignorable=True)), seed=3)
    guests = [guest(f"g{number}") for number in range(20)]
    expected = place(plain, *guests)
    assert len(set(expected)) > 2
    for each, where in zip(guests, expected, strict=True):
        asker.apply(GuestArrived(guest=each))
        (ask,) = asker.step(0)
        asker.apply(Answered(uid=each.uid, ask=ask.ask, error="nobody is there"))
        (bind,) = asker.step(0)
        assert bind.host == where


def test_scores_are_scaled_over_all_feasible_hosts():
    hosts = [host(name, labels={"grade": name}) for name in "abc"]
    wishes = tuple(
        WeightedTerm(n, Term((Expression("grade", "In", (k,)),))) for k, n in (("a", 30), ("b", 15), ("c", 10))
    )
    own = Policy(name="own", scorers=(ScorerUse("preferred_hosts"),), ask=AskUse("oracle"))
    engine = engine_with(hosts, own)
    engine.apply(GuestArrived(guest=guest("g", preferred_hosts=wishes)))
    (ask,) = engine.step(0)
    # b has 15 of 30: 50, c has 10 of 30: 33; were b the best of all, it would have 100 and c 66
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("b", 0), ("c", 20))))
    (bind,) = engine.step(0)
    assert (bind.host, engine.decision("g").total) == ("c", 53)


def test_equal_sums_end_by_the_policy_s_tie_keys():
    hosts = [host("a", rank=2), host("b", rank=1), host("c", rank=1)]
    engine = engine_with(hosts, policy("first_fit", ask=AskUse("oracle")))
    engine.apply(GuestArrived(guest=guest("g")))
    (ask,) = engine.step(0)
    engine.apply(Answered(uid="g", ask=ask.ask, scores=(("a", 5), ("c", 5), ("b", 5))))
    (bind,) = engine.step(0)
    assert bind.host == "b"


def test_answers_take_turns_as_round_robin_does():
    engine = engine_with([host(name) for name in "abc"], policy("round_robin", ask=AskUse("oracle")))
    taken = []
    for number in range(4):
        engine.apply(GuestArrived(guest=guest(f"g{number}")))
        (ask,) = engine.step(0)
        engine.apply(Answered(uid=f"g{number}", ask=ask.ask, scores=tuple((name, 0) for name in "abc")))
        (bind,) = engine.step(0)
        taken.append(bind.host)
    assert taken == ["a", "b", "c", "a"]


# -- tie keys ---------------------------------------------------------------------------------------------------------

TIES = [
    pytest.param((), ["a", "a", "a"], id="none: by name"),
    pytest.param(("rank",), ["c", "c", "c"], id="rank"),
    pytest.param(("rank", "name"), ["c", "c", "c"], id="rank, then name"),
    pytest.param(("fewer_guests",), ["a", "b", "c"], id="fewer guests, then name"),
    pytest.param(("fewer_guests", "rank"), ["c", "d", "a"], id="fewer guests, then rank"),
    pytest.param(("rank", "fewer_guests"), ["c", "d", "c"], id="rank, then fewer guests"),
    pytest.param(("rank", "after_last"), ["c", "d", "c"], id="rank, then turns"),
    pytest.param(("after_last",), ["a", "b", "c"], id="turns"),
    pytest.param(("name", "rank"), ["a", "a", "a"], id="name, then rank"),
    pytest.param(("after_last", "rank"), ["a", "b", "c"], id="turns, then rank"),
]


@pytest.mark.parametrize(("ties", "expected"), TIES)
def test_ties_end_alike_in_decisions_explanations_and_answers(ties, expected):
    hosts = [host("a", rank=2), host("b", rank=2), host("c", rank=1), host("d", rank=1)]
    own = Policy(name="own", ties=ties)
    decides, explains = engine_with(hosts, own), engine_with(hosts, own)
    asks = engine_with(hosts, msgspec.structs.replace(own, ask=AskUse("oracle", ignorable=True)))
    guests = [guest(f"g{number}", cpu=0, memory=0) for number in range(3)]
    assert place(decides, *guests) == expected
    explained, answered = [], []
    for each in guests:
        explains.apply(GuestArrived(guest=each))
        explained.append(explains.explain(each.uid).feasible[0])
        explains.step(0)
        asks.apply(GuestArrived(guest=each))
        (ask,) = asks.step(0)
        asks.apply(Answered(uid=each.uid, ask=ask.ask, error="no"))
        (bind,) = asks.step(0)
        answered.append(bind.host)
    assert explained == expected
    assert answered == expected
