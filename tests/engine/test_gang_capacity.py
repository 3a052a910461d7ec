"""Members counted from amounts: as many as a trial places, and no count where more than amounts decides."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from hostler.engine import Engine
from hostler.engine.gangs.capacity import members_per_row
from hostler.engine.gangs.preemption import units_below_gang
from hostler.engine.gangs.room import GangKinds
from hostler.engine.gangs.trials import Trials
from hostler.engine.runs import KernelRuns
from hostler.engine.state.transaction import Transaction
from hostler.model import Device, DeviceRequest, GuestTerm, HostPort, Quota, QuotasChanged, Spread, Taint, amounts
from tests.engine.fleet import arrive, engine_with, holds, host, step
from tests.engine.gang_instances import app, form, leave, members, runs, wants

GIB = 2**30


def waiting(engine: Engine, key: str = "default/team") -> list[Any]:
    return [engine.state.guests[uid] for uid in engine.state.gangs.pending(key)]


def random_fleet(random: Random, policy: str) -> Engine:
    """Return hosts in two racks, partly used, closed or tainted, and a gang of equal members that fit nowhere."""
    hosts = [
        host(
            f"h{at}",
            cpu=random.choice([0, 3000, 8000]),
            memory=random.choice([2, 8]) * GIB,
            labels=(("rack", f"r{at % 2}"),) if random.random() < 0.9 else (),
            cordoned=random.random() < 0.1,
            taints=(Taint("busy", "", "NoSchedule"),) if random.random() < 0.1 else (),
        )
        for at in range(random.randint(1, 8))
    ]
    engine = engine_with(hosts, policy)
    for at in range(random.randint(0, 6)):  # facts may overfill a host
        runs(engine, random.choice(hosts).name, wants(f"w{at}", random.choice([500, 2500, 9000])))
    topology = random.choice(["", "rack"])
    form(engine, "team", 40, topology=topology)
    shape = {"memory": random.choice([0, GIB // 2, 3 * GIB])}
    arrive(engine, *members("team", 40, random.choice([0, 700, 2000]), **shape))
    step(engine, 0)
    return engine


@pytest.mark.parametrize("policy", ["first_fit", "kubernetes", "pack"])
@pytest.mark.parametrize("seed", range(25))
def test_count_equals_what_a_trial_places_on_every_row(seed, policy):
    engine = random_fleet(Random(seed), policy)
    state, records = engine.state, waiting(engine)
    if not records:
        return  # all were placed
    takes = members_per_row(state, records)
    assert takes is not None
    with Transaction(state) as transaction:
        trial = Trials(state, KernelRuns(state))._greedy(records, transaction, None)
    found = np.bincount([item.row for item in trial.placed], minlength=state.cluster.rows)
    if len(trial.placed) < len(records):
        assert found.tolist() == takes.tolist()
    else:
        assert takes.sum() >= len(records)


@pytest.mark.parametrize("seed", range(10))
def test_trial_with_a_count_gives_the_same_reasons(seed):
    """The second pass over rejected members, which a count saves, changes nothing."""
    engine = random_fleet(Random(seed), "kubernetes")
    state, records = engine.state, waiting(engine)
    if not records:
        return
    takes = members_per_row(state, records)
    trials = []
    for known in (None, takes):
        with Transaction(state) as transaction:
            trials.append(Trials(state, KernelRuns(state))._greedy(records, transaction, None, known))
    assert trials[0] == trials[1]


RULES: dict[str, dict[str, Any]] = {
    "anti_affinity": {"anti_affinity": (GuestTerm(selector=app("team"), topology="rack"),), "app": "team"},
    "affinity": {"affinity": (GuestTerm(selector=app("team"), topology="rack"),), "app": "team"},
    "spread": {"spread": (Spread(topology="rack", max_skew=1, selector=app("team")),), "app": "team"},
    "ports": {"ports": (HostPort(80),)},
    "devices": {"devices": (DeviceRequest("gpu"),)},
}


@pytest.mark.parametrize("rule", RULES)
def test_members_with_rules_or_devices_are_not_counted(rule):
    engine = engine_with([host("a", labels=(("rack", "r"),), devices=(Device("gpu", "A"),))], "first_fit")
    form(engine, "team", 9)
    arrive(engine, *members("team", 9, 1000, **RULES[rule]))
    step(engine, 0)
    assert members_per_row(engine.state, waiting(engine)) is None


def test_members_that_differ_or_that_others_reject_are_not_counted():
    engine = engine_with([host("a"), host("b")], "first_fit")
    form(engine, "team", 9)
    arrive(engine, *members("team", 8, 1000, app="team"), wants("other", 2000, gang="team"))
    step(engine, 0)
    assert members_per_row(engine.state, waiting(engine)) is None
    assert members_per_row(engine.state, waiting(engine)[:8]) is not None
    term = GuestTerm(selector=app("team"), topology="kubernetes.io/hostname")
    runs(engine, "a", wants("hermit", 100, anti_affinity=(term,)))
    assert members_per_row(engine.state, waiting(engine)[:8]) is None


def test_no_unit_is_below_the_lowest_priority():
    engine = engine_with([host("a")], "first_fit")
    form(engine, "team", 9)
    arrive(engine, *members("team", 9, 1000, priority=5))
    runs(engine, "a", wants("equal", 100, 5))
    gang = engine.state.gangs.gangs["default/team"]
    assert units_below_gang(engine.state, gang) == []
    runs(engine, "a", wants("lower", 100, 4))
    assert [unit.members for unit in units_below_gang(engine.state, gang)] == [("lower",)]
    form(engine, "weak", 1, priority=1)  # its own priority counts, not that of its members
    runs(engine, "a", *members("weak", 1, 100, priority=9))
    leave(engine, "lower")
    assert [unit.members for unit in units_below_gang(engine.state, gang)] == [("weak-0",)]


def test_kind_of_a_gang_follows_its_members_and_its_rules():
    engine = engine_with([host("a")], "first_fit")
    form(engine, "team", 3)
    arrive(engine, *members("team", 3, 9000))
    step(engine, 0)
    state, kinds = engine.state, GangKinds(engine.state)

    def kind() -> Any:
        return kinds.find(state.gangs.gangs["default/team"], "default/team")

    before = kind()
    assert kind() is before, "nothing changed, so it is remembered"
    assert (len(before.shapes), before.need) == (1, 3)
    runs(engine, "a", *members("team", 1, 100, first=3))
    assert kind().need == 2
    arrive(engine, *members("team", 1, 8000, first=4))
    assert len(kind().shapes) == 2
    form(engine, "team", 4, topology="rack")
    assert (kind().need, kind().topology) == (3, "rack")


def test_gang_whose_members_are_all_beyond_their_quota_waits():
    engine = engine_with([host("a")], "first_fit")
    engine.apply(QuotasChanged(quotas=(Quota(tenant="t", max=amounts({"cpu": 500})),)))
    form(engine, "team", 2)
    arrive(engine, *members("team", 2, 1000, tenant="t"))
    assert sorted(holds(step(engine, 0))) == ["team-0", "team-1"]
