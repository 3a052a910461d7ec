"""Putting guests back after a gang was placed without them: exact, bounded in one step, and continued in the next."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from hostler.engine import Engine
from hostler.engine.checkpoint import decode, encode
from hostler.engine.gangs.preemption import _Reprieve, _still_fits, units_below_gang
from hostler.engine.gangs.trials import Trial, Trials
from hostler.engine.preemption.victims import Unit, split_by_budgets
from hostler.engine.runs import KernelRuns
from hostler.engine.state.search_shares import SearchPaused, SearchPosition, SearchShare
from hostler.engine.state.state import State
from hostler.engine.state.transaction import Transaction
from hostler.model import Evict, GuestArrived, GuestTerm, QueueRules, Spread
from tests.engine.fleet import engine_with, host, step, step_to_rest
from tests.engine.gang_instances import app, evicted, form, preempting, protect, runs, wants

NEVER = 2**59  # units that no search spends
TOPOLOGIES = ("host", "rack", "zone")


def hosts(count: int) -> list[Any]:
    return [
        host(f"h{at}", cpu=10, labels={"host": f"h{at}", "rack": f"r{at // 2}", "zone": f"z{at // 4}"})
        for at in range(count)
    ]


def rules_about_others(rng: Random) -> dict[str, Any]:
    """Return what a guest demands of others: nothing, or one rule about one app in one kind of domain."""
    topology, about = rng.choice(TOPOLOGIES), app(rng.choice("xy"))
    return rng.choice(
        [
            {},
            {"anti_affinity": (GuestTerm(topology, about),)},
            {"affinity": (GuestTerm(rng.choice(("rack", "zone")), about),)},
            {"spread": (Spread(topology, rng.randint(1, 3), about),)},
        ]
    )


def crowded(seed: int) -> Engine:
    """Return an engine full of small guests, and a gang of high priority that waits."""
    rng = Random(seed)
    engine = engine_with(hosts(rng.randint(4, 12)), preempting())
    for name in list(engine.state.cluster.row_of):
        for number in range(rng.randint(1, 5)):
            low = wants(f"{name}-{number}", 2, rng.randint(0, 2), app=rng.choice("xyz"), **rules_about_others(rng))
            runs(engine, name, low)
    if rng.random() < 0.4:
        protect(engine, rng.choice("xy"), rng.randint(0, 2))
    count = rng.randint(2, 5)
    form(engine, "crew", count)
    for number in range(count):
        member = wants(f"crew-{number}", rng.choice((5, 7, 9)), 9, gang="crew", app=rng.choice("xyz"),
                       **rules_about_others(rng))  # fmt: skip
        engine.apply(GuestArrived(guest=member))
    return engine


def put_back(engine: Engine, reprieve: Callable[[State, Transaction, Trial, list[Unit]], Any]) -> Any:
    """Take everybody below off, place the gang, and return what a way of putting back says; None if it has no place."""
    state = engine.state
    trials = Trials(state, KernelRuns(state))
    gang = state.gangs.gangs["default/crew"]
    members = [state.guests[uid] for uid in state.gangs.members[gang.key]]
    units = units_below_gang(state, gang)
    position = SearchPosition("", (), gang.min_count)
    with Transaction(state) as removal, Transaction(state) as placing:
        for unit in units:
            for uid in unit.members:
                removal.unbook(uid)
        trial = trials.best(gang, members, gang.min_count, placing, SearchShare(NEVER, pauses=False), position)
        return reprieve(state, removal, trial, units) if len(trial.placed) >= gang.min_count else None


def check_everybody(state: State, removal: Transaction, trial: Trial, units: list[Unit]) -> list[Unit] | None:
    """Put units back one by one, and look at every member each time; None if a member breaks its own rule before."""
    if not all(_still_fits(state, item) for item in trial.placed):
        return None
    victims = []
    breaking, others = split_by_budgets(state, units)
    for unit in (*breaking, *others):
        for uid in unit.members:
            removal.rebook(uid)
        if not all(_still_fits(state, item) for item in trial.placed):
            victims.append(unit)
            for uid in unit.members:
                removal.unbook(uid)
    return victims


def at_once(state: State, removal: Transaction, trial: Trial, units: list[Unit]) -> list[Unit]:
    return _Reprieve(state, removal, trial, units).run(SearchShare(NEVER), SearchPosition("", (), 1))


def test_victims_are_those_of_checking_every_member():
    """Looking only at members that a guest can push out must give the victims that looking at all of them gives."""
    compared = with_victims = 0
    for seed in range(200):
        expected = put_back(crowded(seed), check_everybody)
        if expected is None:
            continue
        assert put_back(crowded(seed), at_once) == expected, f"seed {seed}"
        compared += 1
        with_victims += bool(expected)
    assert compared > 100
    assert with_victims > 70


def test_putting_back_in_shares_ends_like_at_once():
    """Each share ends the transaction; the next one begins with the position that a checkpoint keeps."""
    pauses = 0
    for seed in range(60):
        expected = put_back(crowded(seed), at_once)
        if expected is None:
            continue
        engine, position = crowded(seed), SearchPosition("", (), 1)

        def with_a_share(
            state: State, removal: Transaction, trial: Trial, units: list[Unit], position: SearchPosition = position
        ) -> list[Unit] | None:
            try:
                return _Reprieve(state, removal, trial, units).run(SearchShare(0), position)
            except SearchPaused:
                return None

        found = None
        for _ in range(100):  # more than there are guests
            found = put_back(engine, with_a_share)
            if found is not None:
                break
            pauses += 1
        assert found == expected, f"seed {seed}"
    assert pauses > 500


LOW = 40  # guests of lower priority on each of the four hosts of a zone


def watchful(units: int) -> Engine:
    """Return an engine with a gang whose members each look at every guest of lower priority."""
    near = {"affinity": (GuestTerm("zone", app("x")),)}
    racks = [host(f"h{at}", cpu=100, labels={"zone": f"z{at // 4}"}) for at in range(8)]
    engine = engine_with(racks, preempting(), rules=QueueRules(search_units=units))
    for at in range(8):
        runs(engine, f"h{at}", *[wants(f"low-{at}-{number}", 2, app="x") for number in range(LOW)])
    form(engine, "crew", 8)
    for number in range(8):
        engine.apply(GuestArrived(guest=wants(f"crew-{number}", 45, 9, gang="crew", app="x", **near)))
    return engine


def test_putting_back_is_bounded_in_one_step():
    """A gang of 64 that looked around held one step for 25 seconds on a fleet of 10,000 guests."""

    def work_of_steps(engine: Engine) -> tuple[list[int], list[str]]:
        work: list[int] = []
        victims: list[str] = []
        while not victims and len(work) < 1000:
            before = engine.state.cluster.log_end
            victims = evicted(step(engine, engine.now))
            work.append(engine.state.cluster.log_end - before)
        return work, victims

    whole, expected = work_of_steps(watchful(NEVER))
    shares, victims = work_of_steps(watchful(8))
    assert victims == expected
    assert len(whole) == 1
    assert len(shares) > 5
    # Everybody is taken off and put back in each step; the rest is what a share of eight units allows.
    assert max(shares) < whole[0] / 2


@pytest.mark.parametrize("twin", ["restored", "forked"])
def test_twin_of_a_paused_reprieve_ends_the_same(twin):
    engine = watchful(8)
    for _ in range(3):
        assert evicted(step(engine, engine.now)) == []
    position = engine.state.gangs.searches.positions["default/crew"]
    assert position.reprieved is not None
    saved = encode(decode(engine.checkpoint()))
    other = Engine.restore(saved) if twin == "restored" else engine.fork()
    assert step_to_rest(other, engine.now) == step_to_rest(engine, engine.now)


def test_changed_places_begin_the_reprieve_again():
    """Another guest takes a host of the gang while guests are put back: those on that host need not go any more."""
    vip = wants("vip", 80, 20)
    engine = watchful(8)
    for _ in range(8):
        step(engine, engine.now)
    assert engine.state.gangs.searches.positions["default/crew"].victims
    runs(engine, "h0", vip)
    fresh = watchful(NEVER)
    runs(fresh, "h0", vip)
    assert evicted(step_to_rest(engine, engine.now)) == evicted(step_to_rest(fresh, fresh.now))


def test_explanation_of_a_long_reprieve_says_so():
    engine = watchful(8)
    step(engine, engine.now)
    advice = engine.explain("crew-0").eviction
    assert advice is not None
    assert advice.victims == ()
    assert "too many guests of lower priority" in advice.why_not
    actions = step_to_rest(engine, engine.now)
    assert any(isinstance(action, Evict) for action in actions)
