"""Kept dry runs of preemption: as good as new ones, for guests with rules about others too."""

from __future__ import annotations

from random import Random

import pytest

from hostler.engine import Engine
from hostler.engine.preemption.preemption import Planner
from hostler.model import (
    Budget,
    BudgetChanged,
    Expression,
    Guest,
    GuestArrived,
    GuestLeft,
    GuestSpec,
    GuestTerm,
    HostChanged,
    Selector,
    Spread,
    labels,
)
from tests.engine.fleet import GIB, engine_with, host, spec
from tests.engine.gang_instances import evicted, preempting

MIXES = ((1, 1, 1), (1, 24, 24), (24, 1, 24))  # how common apps a, b and c are; a rare one may be on one host only


def app(name: str) -> Selector:
    return Selector((Expression("app", "In", (name,)),))


def preemptors() -> list[GuestSpec]:
    """Return shapes of high priority, each with another kind of rule about others, and one without."""
    high = {"cpu": 2000, "memory": GIB, "priority": 100, "labels": labels({"app": "a"})}
    return [
        spec(**high),
        spec(**high, anti_affinity=(GuestTerm(topology="host", selector=app("a")),)),
        spec(**high, anti_affinity=(GuestTerm(topology="zone", selector=app("b")),)),
        spec(**high, affinity=(GuestTerm(topology="zone", selector=app("c")),)),
        spec(**high, affinity=(GuestTerm(topology="zone", selector=app("a")),)),
        spec(**high, spread=(Spread(topology="zone", max_skew=1, selector=app("a")),)),
        spec(**high, spread=(Spread(topology="zone", max_skew=2, min_domains=3, selector=app("b")),)),
    ]


def low_guest(random: Random, mix: tuple[int, ...], at: int, where: str) -> Guest:
    """Return a running guest of low priority, of an app, perhaps with a rule of its own."""
    apart = (GuestTerm(topology="host", selector=app("a")),) if random.random() < 0.2 else ()
    shape = spec(
        cpu=random.choice((500, 1000)), memory=GIB // 4, priority=random.randrange(3),
        labels=labels({"app": random.choices("abc", mix)[0]}), anti_affinity=apart,
    )  # fmt: skip
    return Guest(name=f"low-{at}", uid=f"low-{at}", spec=shape, host=where, version=1, started=1 + random.randrange(9))


def change(random: Random, mix: tuple[int, ...], engine: Engine, at: int) -> None:
    """Let something happen that a dry run may depend on."""
    names = list(engine.state.cluster.row_of)
    running = [uid for uid, record in engine.state.guests.items() if record.host]
    kind = random.choice(("arrives", "leaves", "leaves", "changes zone", "budget"))
    if kind == "arrives":
        engine.apply(GuestArrived(guest=low_guest(random, mix, at, random.choice(names))))
    elif kind == "leaves" and running:
        engine.apply(GuestLeft(uid=random.choice(running)))
    elif kind == "changes zone":
        name = random.choice(names)
        marks = {"host": name, "zone": f"z{random.randrange(3)}"}
        engine.apply(HostChanged(host=host(name, version=at + 2, labels=marks)))
    elif kind == "budget":
        engine.apply(BudgetChanged(budget=Budget(name="b", selector=app("b"), allowed=random.randrange(3))))


@pytest.mark.parametrize("seed", range(12))
def test_kept_dry_runs_equal_new_ones(seed):
    """A planner that saw every change finds the victims that a new planner finds."""
    random, mix = Random(seed), MIXES[seed % 3]
    hosts = [host(f"n{i}", labels={"host": f"n{i}", "zone": f"z{i % 4}"}, version=1) for i in range(12)]
    engine = engine_with(hosts, preempting("kubernetes", budgets=random.choice(("strict", "best_effort"))))
    for at in range(50):
        engine.apply(GuestArrived(guest=low_guest(random, mix, at, f"n{random.randrange(12)}")))
    waiting = [Guest(name=f"p{i}", uid=f"p{i}", spec=one) for i, one in enumerate(preemptors())]
    for guest in waiting:
        engine.apply(GuestArrived(guest=guest))
    state = engine.state
    kept = Planner(state)
    found = 0
    for at in range(50, 90):
        change(random, mix, engine, at)
        for guest in waiting:
            shape, policy = state.shapes.shapes[state.guests[guest.uid].shape], 0
            expected = Planner(state).plan(shape, policy, frozenset())
            assert kept.plan(shape, policy, frozenset()) == expected, f"seed {seed}, change {at}, {guest.name}"
            found += expected is not None
    assert found > 40, "most random fleets have victims"


def test_preemptor_with_rules_gets_the_cheapest_victims_of_a_large_fleet():
    """The search does not stop at a share of the hosts."""
    hosts = [host(f"n{i:04}", labels={"host": f"n{i:04}"}) for i in range(300)]
    engine = engine_with(hosts, preempting("kubernetes"))
    for i in range(300):
        low = spec(cpu=4000, memory=GIB, priority=1 if i == 290 else 50)
        engine.apply(GuestArrived(guest=Guest(name=f"low-{i}", uid=f"low-{i}", spec=low, host=f"n{i:04}", version=1)))
    apart = (GuestTerm(topology="host", selector=app("a")),)
    high = spec(cpu=4000, memory=GIB, priority=100, labels=labels({"app": "a"}), anti_affinity=apart)
    engine.apply(GuestArrived(guest=Guest(name="high", uid="high", spec=high)))
    assert evicted(engine.step(1)) == ["low-290"]
