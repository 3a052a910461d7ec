"""The bounded search: what an exhaustive one can solve, the engine solves, nearly always, and never wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count

import pytest

from hostler.engine import Engine
from hostler.engine.gangs.search import EXPANSIONS, search
from hostler.engine.gangs.trials import Trials
from hostler.engine.runs import KernelRuns
from hostler.engine.state.transaction import Transaction
from hostler.model import Bind
from tests.engine.fleet import arrive, binds, engine_with, host, step, step_to_rest
from tests.engine.gang_instances import Instance, Rules, add, empty, engine_for, form, instance, solve, wants

ENOUGH = 0.95  # of the solvable instances must be placed


@cache
def way(seed: int) -> tuple[tuple[int, int], ...] | None:
    """Return a way to solve an instance, as (kind, host) in order, or None where there is none."""
    found = solve(instance(seed))
    return None if found is None else tuple(found)


def solvable(most: int) -> Iterator[Instance]:
    """Return the first instances that can be solved."""
    found = 0
    for seed in count():
        if way(seed) is not None:
            yield instance(seed)
            found += 1
        if found == most:
            return


def greedy_is_enough(engine: Engine) -> bool:
    """Say whether the greedy order alone places the whole gang; nothing stays changed."""
    state = engine.state
    records = list(state.guests.values())
    with Transaction(state) as transaction:
        trial = Trials(state, KernelRuns(state))._greedy(records, transaction, None)
    return len(trial.placed) == len(records)


def check_order(case: Instance, actions: list) -> None:
    """Replay the placements one by one against the rules of the instance."""
    rules, state = Rules(case), empty(case)
    for action in actions:
        assert isinstance(action, Bind)
        kind, at = int(action.uid.split("-")[0]), int(action.host[1:])
        assert rules.fits(state, kind, at), f"instance {case.seed}: {action.uid} does not fit on {action.host}"
        state = add(state, kind, at)


def measure(most: int, chosen: str) -> tuple[float, float, list[int]]:
    """Return the shares that greedy and the engine place of the solvable instances, and the seeds that are missed."""
    greedy, missed = 0, []
    for case in solvable(most):
        engine = engine_for(case, chosen)
        is_easy = greedy_is_enough(engine.fork())
        greedy += is_easy
        actions = step_to_rest(engine, 0)
        if len(binds(actions)) == case.size:
            check_order(case, actions)
        else:
            assert binds(actions) == {}
            missed.append(case.seed)
            assert not is_easy
    return greedy / most, 1 - len(missed) / most, missed


def test_most_solvable_instances_are_solved():
    greedy, found, missed = measure(60, "spread")
    print(f"of 60 solvable instances greedy places {greedy:.1%}, the engine {found:.1%}; missed: {missed}")
    assert found >= ENOUGH


@pytest.mark.long
@pytest.mark.parametrize("chosen", ["spread", "pack"])
def test_of_500_solvable_instances_95_percent_are_solved(chosen):
    greedy, found, missed = measure(500, chosen)
    print(f"{chosen}: of 500 solvable instances greedy places {greedy:.1%}, the engine {found:.1%}; missed: {missed}")
    assert found >= ENOUGH


def test_instances_that_cannot_be_solved_are_not_solved():
    unsolvable = [seed for seed in range(40) if way(seed) is None]
    assert len(unsolvable) > 5
    for seed in unsolvable[:6]:
        assert binds(step_to_rest(engine_for(instance(seed), "spread"), 0)) == {}


def test_the_instances_are_what_they_are_said_to_be():
    cases = [instance(seed) for seed in range(200)]
    assert all(len(case.hosts) <= 6 and case.size <= 8 for case in cases)
    kinds = [kind for case in cases for kind in case.kinds]
    assert all(any(getattr(kind, name) for kind in kinds) for name in ("near", "apart", "even"))
    assert sum(len(case.kinds) > 1 for case in cases) > 150
    assert instance(7) == instance(7)


def test_the_exhaustive_search_finds_ways_that_its_own_rules_allow():
    for case in solvable(20):
        rules, state = Rules(case), empty(case)
        for kind, at in way(case.seed) or ():
            assert rules.fits(state, kind, at)
            state = add(state, kind, at)
        assert [sum(row) for row in state] == [kind.members for kind in case.kinds]


def test_the_rules_of_the_instances_are_those_of_the_engine():
    for case in solvable(20):
        engine = engine_for(case, "spread")
        state, rules, placed = engine.state, Rules(case), empty(case)
        used = [0] * len(case.kinds)
        with Transaction(state) as transaction:
            for kind, at in way(case.seed) or ():
                for other in range(len(case.kinds)):
                    slot = state.cache.slot(state.shape(state.guests[f"{other}-0"]), 0)
                    for b, machine in enumerate(case.hosts):
                        fits = state.cache.verdict(slot, state.cluster.row_of[machine.name]) == 0
                        assert fits == rules.fits(placed, other, b), (case.seed, other, machine.name)
                record = state.guests[f"{kind}-{used[kind]}"]
                transaction.book(state.cluster.row_of[f"h{at}"], state.shape(record), (), record.guest.uid)
                used[kind] += 1
                placed = add(placed, kind, at)


# -- the search itself ------------------------------------------------------------------------------------------------


def packed() -> Engine:
    """Return an engine whose gang fits in one way only, which the largest-first order misses."""
    engine = engine_with([host("a", cpu=10_000), host("b", cpu=10_000)], "first_fit")
    form(engine, "team", 6)
    arrive(engine, *(wants(f"t{i}", 1000 * n, gang="team") for i, n in enumerate((5, 4, 4, 3, 2, 2))))
    return engine


def test_a_gang_that_the_greedy_order_misses_is_found_by_searching():
    engine = packed()
    assert not greedy_is_enough(engine)
    found = binds(step(engine, 0))
    assert len(found) == 6
    on_a = sum(n for i, n in enumerate((5, 4, 4, 3, 2, 2)) if found[f"t{i}"] == "a")
    assert on_a == 10


def test_the_search_is_the_same_every_time():
    assert step(packed(), 0) == step(packed(), 0)
    engine = packed()
    again = Engine.restore(engine.checkpoint())
    assert step(engine.fork(), 0) == step(again, 0) == step(engine, 0)


@pytest.mark.parametrize("expansions", [0, 1, 3, 5])
def test_a_search_that_runs_out_of_expansions_leaves_nothing_behind(expansions):
    engine = packed()
    state = engine.state
    state.cache.codes(state.cache.slot(state.shape(state.guests["t0"]), 0))  # the reasons are named when first needed
    before = engine.checkpoint()
    members = [(record, 0) for record in state.guests.values()]
    used = state.cluster.columns().used.copy()
    with Transaction(state) as transaction:
        assert search(state, transaction, members, 6, expansions=expansions) is None
        assert (state.cluster.columns().used == used).all()
    assert engine.checkpoint() == before


def test_the_search_gives_up_after_its_expansions():
    # Nine members of six cores on eight hosts of eleven: it has to try very many ways to see that it cannot be.
    hosts = [host(f"h{i}", cpu=11_000 + i) for i in range(8)]
    engine = engine_with(hosts, "first_fit")
    form(engine, "team", 9)
    arrive(engine, *(wants(f"t{i}", 6000 + 10 * i, gang="team") for i in range(9)))
    assert binds(step(engine, 0)) == {}
    assert EXPANSIONS == 10_000
