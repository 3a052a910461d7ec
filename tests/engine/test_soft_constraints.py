"""Soft constraints under every built-in policy: they come before the policy's own score, and touch nobody else."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from hostler.engine import BUILT_IN, Engine
from hostler.engine.policy.profiles import PREFERENCES
from hostler.model import (
    Action,
    Expression,
    Gang,
    GangChanged,
    Guest,
    GuestArrived,
    GuestSpec,
    GuestTerm,
    Host,
    Policy,
    Selector,
    Spread,
    Term,
    WeightedGuestTerm,
    WeightedTerm,
    labels,
)
from tests.engine.fleet import GIB, arrive, engine_with, guest, host, place, policy, step

CLASSIC = sorted(name for name, one in BUILT_IN.items() if one.soft_constraints == "first")
ZONE = "zone"
ZONES = ("a", "b", "c")
WEB = Selector((Expression("app", "In", ("web",)),))
NEAR_WEB = (WeightedGuestTerm(10, GuestTerm(ZONE, WEB)),)
EVEN = (Spread(ZONE, selector=WEB, is_hard=False),)
OF_WEB = labels({"app": "web"})


def hosts(**fields) -> list[Host]:
    return [host(f"host-{zone}", labels={ZONE: zone}, **fields) for zone in ZONES]


def in_zone(zone: str, weight: int = 1) -> WeightedTerm:
    return WeightedTerm(weight, Term((Expression(ZONE, "In", (zone,)),)))


def chosen_without(name: str) -> str:
    """Return the zone that a policy chooses by itself among equal hosts."""
    [found] = place(engine_with(hosts(), policy(name)), guest("vm"))
    return found.removeprefix("host-")


def test_each_policy_without_own_preferences_lets_soft_constraints_come_first():
    listing = {name for name, one in BUILT_IN.items() if {use.name for use in one.scorers} >= {"preferred_hosts"}}
    assert {*CLASSIC} | listing == set(BUILT_IN)
    assert listing == {"spread", "pack", "kubernetes"}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_preferred_host_wins_under_every_policy(name):
    for zone in ZONES:
        assert place(engine_with(hosts(), policy(name)), guest("vm", preferred_hosts=(in_zone(zone),))) == [
            f"host-{zone}"
        ]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_preferred_guest_attracts_and_repels_under_every_policy(name):
    for zone in ZONES:
        there = guest("web", labels=OF_WEB, host=f"host-{zone}")
        near = engine_with(hosts(), policy(name))
        arrive(near, there)
        assert place(near, guest("vm", preferred_affinity=NEAR_WEB)) == [f"host-{zone}"]
        apart = engine_with(hosts(), policy(name))
        arrive(apart, there)
        assert place(apart, guest("vm", preferred_anti_affinity=NEAR_WEB)) != [f"host-{zone}"]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_soft_spread_uses_all_zones_under_every_policy(name):
    engine = engine_with(hosts(cpu=64000, memory=64 * GIB), policy(name))
    found = place(engine, *(guest(f"vm-{i}", labels=OF_WEB, spread=EVEN) for i in range(6)))
    assert sorted(found) == sorted(2 * [f"host-{zone}" for zone in ZONES])


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_soft_constraints_of_many_guests_count_in_one_step(name):
    """The kernel decides all of them in one run."""
    engine = engine_with(hosts(cpu=64000, memory=64 * GIB), policy(name))
    arrive(engine, *(guest(f"vm-{i}", labels=OF_WEB, spread=EVEN) for i in range(9)))
    step(engine, 0)
    found = sorted(engine.decision(f"vm-{i}").host for i in range(9))
    assert found == sorted(3 * [f"host-{zone}" for zone in ZONES])


@pytest.mark.parametrize("name", ["least_loaded", "best_fit", "round_robin", "first_fit"])
def test_own_score_decides_among_equally_preferred_hosts(name):
    favorite = chosen_without(name)
    others = [zone for zone in ZONES if zone != favorite]
    wishes = tuple(in_zone(zone) for zone in ZONES)
    assert place(engine_with(hosts(), policy(name)), guest("vm", preferred_hosts=wishes)) == [f"host-{favorite}"]
    wishes = tuple(in_zone(zone) for zone in others)
    assert place(engine_with(hosts(), policy(name)), guest("vm", preferred_hosts=wishes)) == [f"host-{others[0]}"]


def test_preference_wins_over_any_load():
    engine = engine_with(hosts(), "least_loaded")
    arrive(engine, *(guest(f"there-{i}", cpu=900, memory=GIB // 2, host="host-b") for i in range(3)))
    assert place(engine, guest("plain"), guest("choosy", preferred_hosts=(in_zone("b"),))) == ["host-a", "host-b"]


def test_full_preferred_host_does_not_keep_a_guest_waiting():
    engine = engine_with(hosts(), "least_loaded")
    arrive(engine, guest("large", cpu=4000, host="host-c"))
    assert place(engine, guest("vm", preferred_hosts=(in_zone("c"),))) == ["host-a"]


@pytest.mark.parametrize("name", CLASSIC)
def test_terms_of_others_do_not_move_a_guest_without_soft_constraints(name):
    favorite = chosen_without(name)
    others = [zone for zone in ZONES if zone != favorite]
    engine = engine_with(hosts(cpu=8000, memory=8 * GIB), policy(name))
    plain = engine_with(hosts(cpu=8000, memory=8 * GIB), policy(name))
    for zone in others:
        arrive(engine, guest(zone, host=f"host-{zone}", cpu=1, memory=1, preferred_affinity=NEAR_WEB))
        arrive(plain, guest(zone, host=f"host-{zone}", cpu=1, memory=1))
    assert place(engine, guest("vm", labels=OF_WEB)) == place(plain, guest("vm", labels=OF_WEB))


def random_spec(random: Random, *, is_choosy: bool) -> GuestSpec:
    found = GuestSpec(
        requests=(("cpu", random.randrange(1, 8) * 250), ("memory", random.randrange(1, 4) * GIB // 4)),
        labels=random.choice(((), OF_WEB)),
        priority=random.randrange(3),
    )
    if not is_choosy:
        return found
    kinds = random.sample(("hosts", "near", "apart", "even"), random.randrange(1, 3))
    return msgspec.structs.replace(
        found,
        preferred_hosts=(in_zone(random.choice(ZONES), random.randrange(1, 9)),) if "hosts" in kinds else (),
        preferred_affinity=NEAR_WEB if "near" in kinds else (),
        preferred_anti_affinity=NEAR_WEB if "apart" in kinds else (),
        spread=EVEN if "even" in kinds else (),
    )


def random_hosts(random: Random) -> list[Host]:
    return [
        host(f"host-{i}", cpu=random.randrange(4, 12) * 1000, labels={ZONE: random.choice(ZONES)}, rank=i % 3)
        for i in range(7)
    ]


@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("seed", range(4))
def test_guests_without_soft_constraints_are_decided_as_ever(name, seed):
    """All actions are equal, and all scores: with soft constraints first, and with those that count for nothing."""

    def run(one: Policy) -> list[list[Action] | list[int | float | None]]:
        random = Random(seed)
        engine = engine_with(random_hosts(random), one, seed=seed)
        for i in range(6):  # guests that are there already, and would attract others
            arrive(engine, guest(f"there-{i}", random_spec(random, is_choosy=True), host=f"host-{i}"))
        found: list[list[Action] | list[int | float | None]] = []
        for turn in range(12):
            names = [f"vm-{turn}-{i}" for i in range(random.randrange(1, 5))]
            arrive(engine, *(guest(each, random_spec(random, is_choosy=False)) for each in names))
            found += [step(engine, turn), [engine.decision(each).total for each in names]]
        return found

    assert run(policy(name)) == run(policy(name, soft_constraints="scored"))


@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("seed", range(4))
def test_choice_is_the_best_by_preference_then_score(name, seed):
    """The explanation computes both again, in Python; the kernel chose without it."""
    random = Random(seed)
    engine = engine_with(random_hosts(random), policy(name), seed=seed)
    for i in range(30):
        one = guest(f"vm-{i}", random_spec(random, is_choosy=True))
        engine.apply(GuestArrived(guest=one))
        fits = [verdict for verdict in engine.explain(one.uid).verdicts if verdict.fits]
        engine.step(i)
        decision = engine.decision(one.uid)
        if not fits:
            assert not decision.host
            continue
        assert fits[0].preference is not None
        best = max((verdict.preference, verdict.total) for verdict in fits)
        [chosen] = [verdict for verdict in fits if verdict.host == decision.host]
        assert (chosen.preference, chosen.total) == best
        if name != "random":
            assert fits[0].host == decision.host
        assert decision.total == chosen.total, "the decision and the explanation show the same number"
        shown = {score.plugin: score.weighted for score in chosen.scores}
        named = {use.name for use in PREFERENCES}
        assert chosen.preference == sum(value for plugin, value in shown.items() if plugin in named)
        own = sum(value for plugin, value in shown.items() if plugin not in named)
        assert chosen.total == pytest.approx(own, abs=1e-8), "floats are compared to nine digits"


@pytest.mark.parametrize("name", ["first_fit", "round_robin", "random"])
@pytest.mark.parametrize("seed", range(4))
def test_policy_without_scorers_decides_as_if_it_listed_the_preferences(name, seed):
    def run(one: Policy) -> list[list[Action]]:
        random = Random(seed)
        engine = engine_with(random_hosts(random), one, seed=seed)
        found = []
        for turn in range(8):
            names = [f"vm-{turn}-{i}" for i in range(random.randrange(1, 5))]
            arrive(engine, *(guest(each, random_spec(random, is_choosy=True)) for each in names))
            found.append(step(engine, turn))
        return found

    assert run(policy(name)) == run(policy(name, soft_constraints="scored", scorers=PREFERENCES))


def test_listed_preference_stays_part_of_the_score():
    own = policy("best_fit", scorers=(*BUILT_IN["best_fit"].scorers, PREFERENCES[0]))
    engine = engine_with(hosts(), own)
    vm = guest("vm", preferred_hosts=(in_zone("b"),))
    assert place(engine, vm) == ["host-b"]
    assert [verdict.preference for verdict in engine.explain("vm").verdicts] == [None, None, None]


def test_policy_of_own_ignores_soft_constraints_that_it_does_not_list():
    own = Policy(name="own", ties=("name",), scorers=(PREFERENCES[1],))
    engine = engine_with(hosts(), own)
    vm = guest("vm", preferred_hosts=(in_zone("c"),), preferred_affinity=NEAR_WEB, spread=EVEN)
    assert place(engine, vm) == ["host-a"]
    assert engine.explain("vm").ignored == ("preferred_hosts", "spread (soft)")


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_no_built_in_policy_ignores_a_soft_constraint(name):
    wishes = {"preferred_hosts": (in_zone("c"),), "preferred_affinity": NEAR_WEB, "spread": EVEN}
    engine = engine_with(hosts(), policy(name))
    place(engine, guest("vm", **wishes))
    assert engine.explain("vm").ignored == ()


def test_soft_constraints_of_a_restored_engine_count():
    engine = engine_with(hosts(), "least_loaded", "round_robin")
    restored = Engine.restore(engine.checkpoint())
    assert restored.policies == engine.policies
    vm = guest("vm", preferred_hosts=(in_zone("c"),), policy="round_robin")
    assert place(restored, vm) == place(engine.fork(), vm) == ["host-c"]


@pytest.mark.parametrize("wishes", [(), (in_zone("b"),)], ids=["plain", "choosy"])
def test_members_of_a_gang_have_the_score_of_single_guests(wishes):
    alone = engine_with(hosts(), "least_loaded")
    place(alone, guest("alone", preferred_hosts=wishes))
    engine = engine_with(hosts(), "least_loaded")
    engine.apply(GangChanged(gang=Gang(name="crew", min_count=1)))
    member: Guest = msgspec.structs.replace(guest("member", preferred_hosts=wishes), gang="default/crew")
    place(engine, member)
    assert engine.decision("member").host == alone.decision("alone").host
    assert engine.decision("member").total == alone.decision("alone").total
