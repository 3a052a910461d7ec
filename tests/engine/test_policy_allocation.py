"""Hand-computed tables for kube-scheduler's scores, from 1.36 on: allocation, balance and preferences."""

from __future__ import annotations

import pytest

from hostler.engine import Engine
from hostler.model import (
    Expression,
    Guest,
    HostJoined,
    HostLeft,
    Policy,
    ScorerUse,
    Taint,
    Term,
    Toleration,
    WeightedTerm,
)
from tests.engine.fleet import GIB, MIB, arrive, engine_with, guest, host, place
from tests.engine.scores import raw_scores, weighted_scores

SMALL = host("small", cpu=4000, memory=10_000 * MIB)

LARGE = host("large", cpu=6000, memory=10_000 * MIB)

POD = {"cpu": 3000, "memory": 5000 * MIB}


def one_scorer(name: str, args: str = "", weight: int = 1) -> Policy:
    return Policy(name="one", scorers=(ScorerUse(name, weight, args),))


ALLOCATION = [
    # (4000-3000)*100/4000 = 25, (10000-5000)*100/10000 = 50, mean 37; 50 and 50, mean 50
    pytest.param("least_allocated", "", POD, {"small": 37, "large": 50}, id="least allocated"),
    pytest.param("most_allocated", "", POD, {"small": 62, "large": 50}, id="most allocated"),
    # (25*3 + 50) / 4 = 31
    pytest.param(
        "least_allocated", '{"resources": {"cpu": 3, "memory": 1}}', POD, {"small": 31, "large": 50}, id="weights"
    ),
    pytest.param("least_allocated", '{"resources": {"cpu": 1}}', POD, {"small": 25, "large": 50}, id="cpu alone"),
    # nothing asked for counts as 100 milli-cores and 200 MiB: 97 and 98, 98 and 98
    pytest.param("least_allocated", "", {"cpu": 0, "memory": 0}, {"small": 97, "large": 98}, id="least, nothing asked"),
    pytest.param("most_allocated", "", {"cpu": 0, "memory": 0}, {"small": 2, "large": 1}, id="most, nothing asked"),
    # extended resources that the guest does not ask for do not count
    pytest.param(
        "least_allocated", '{"resources": {"cpu": 1, "license": 9}}', POD, {"small": 25, "large": 50}, id="not asked"
    ),
    # sigma of 0.75 and 0.5 is 0.125: 87, without the guest 100: 50 + (50-13)/2 = 68; evenly used: 50 + 50/2 = 75
    pytest.param("balanced", "", POD, {"small": 68, "large": 75}, id="balanced"),
    # 75 % and 50 %, mean 62.5 rounded up; 50 and 50
    pytest.param("capacity_ratio", "", POD, {"small": 63, "large": 50}, id="capacity ratio"),
    # (75*3 + 50) / 4 = 68.75
    pytest.param(
        "capacity_ratio", '{"resources": {"cpu": 3, "memory": 1}}', POD, {"small": 69, "large": 50}, id="ratio, weights"
    ),
    # a resource that scores 0 leaves the weights: cpu alone counts on small, nothing on large
    pytest.param(
        "capacity_ratio", '{"points": [[50, 0], [100, 10]]}', POD, {"small": 50, "large": 0}, id="ratio, zeros leave"
    ),
    # falling line: 100 - 75 = 25 and 50: 37.5 rounded up; divided toward zero: 100 - 66 = 34 at 20 % of 30
    pytest.param(
        "capacity_ratio", '{"points": [[0, 10], [100, 0]]}', POD, {"small": 38, "large": 50}, id="ratio, falling"
    ),
    pytest.param(
        "capacity_ratio", '{"points": [[0, 10], [30, 0]], "resources": {"cpu": 1}}', {"cpu": 800, "memory": 0},
        {"small": 34, "large": 57}, id="ratio divides toward zero",
    ),
    pytest.param(
        "capacity_ratio", '{"points": [[60, 3], [70, 7]], "resources": {"cpu": 1}}', POD, {"small": 70, "large": 30},
        id="ratio is level beyond its ends",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "wanted", "expected"), ALLOCATION)
def test_allocation_scores(name, args, wanted, expected):
    engine = engine_with([SMALL, LARGE], one_scorer(name, args))
    assert raw_scores(engine, guest("g", **wanted), name) == expected


BALANCE = [
    # before: 0.5 and 0: sigma 0.25, 75; after: 0.5 and 0.5, 100
    pytest.param((2000, 0), (0, 2000), 50 + (50 + 100 - 75) // 2, id="it evens the host out"),
    # before: 0 and 0, 100; after: 1 and 0: sigma 0.5, 50
    pytest.param((0, 0), (4000, 0), 50, id="it tips the host over"),
    # before and after alike
    pytest.param((1000, 1000), (1000, 1000), 75, id="it changes nothing"),
    # before 0.25 and 0.75: 75; after 0.75 and 0.75: 100
    pytest.param((1000, 3000), (2000, 0), 87, id="it fills the gap"),
]


@pytest.mark.parametrize(("before", "wanted", "expected"), BALANCE)
def test_balance_counts_what_the_guest_changes(before, wanted, expected):
    engine = engine_with([host("a", 4000, 4000)], one_scorer("balanced"))
    arrive(engine, guest("there", cpu=before[0], memory=before[1], host="a"))
    assert raw_scores(engine, guest("g", cpu=wanted[0], memory=wanted[1]), "balanced") == {"a": expected}


def test_balance_of_three_resources_is_a_standard_deviation():
    args = '{"resources": {"cpu": 1, "memory": 1, "storage": 1}}'
    engine = engine_with([host("a", 1000, 1000, more={"storage": 1000})], one_scorer("balanced", args))
    # after: 0.9, 0.3, 0.3: mean 0.5, sigma sqrt((0.16 + 0.04 + 0.04) / 3) = 0.2828: 71; before: 100
    found = raw_scores(engine, guest("g", cpu=900, memory=300, more={"storage": 300}), "balanced")
    assert found == {"a": 50 + (50 + 71 - 100) // 2}


def test_balance_has_nothing_to_say_about_a_guest_that_asks_for_nothing():
    engine = engine_with([SMALL, LARGE], one_scorer("balanced"))
    assert raw_scores(engine, guest("g", cpu=0, memory=0), "balanced") == {}


def test_allocation_is_exact_for_amounts_up_to_2_to_the_62():
    engine = engine_with([host("a", 2**62, 2**62)], one_scorer("least_allocated"))
    arrive(engine, guest("there", cpu=2**61 - 1, memory=2**62 - 1, host="a"))
    # cpu: (2^61 + 1 - 100) * 100 / 2^62 = 49, memory: the default of 200 MiB no longer fits: 0
    assert raw_scores(engine, guest("g", cpu=0, memory=0), "least_allocated") == {"a": 24}


def test_spread_levels_hosts_out_and_pack_fills_them_up():
    hosts = [host(name, 4000, 4 * GIB) for name in "abc"]
    guests = [guest(f"g{i}") for i in range(6)]
    assert place(engine_with(hosts, "spread"), *guests) == ["a", "b", "c", "a", "b", "c"]
    assert place(engine_with(hosts, "pack"), *guests) == ["a", "a", "a", "a", "b", "b"]
    assert place(engine_with(hosts, "capacity_ratio"), *guests) == ["a", "a", "a", "a", "b", "b"]


def test_first_fit_goes_by_rank_then_name():
    hosts = [host("a", 1000, rank=2), host("b", 1000, rank=1), host("c", 1000, rank=1), host("d", 1000, rank=-1)]
    assert place(engine_with(hosts, "first_fit"), *(guest(f"g{i}") for i in range(5))) == ["d", "b", "c", "a", ""]


def test_preferred_hosts_are_scaled_to_the_best_and_doubled():
    hosts = [host("ssd", labels={"disk": "ssd"}), host("both", labels={"disk": "ssd", "zone": "x"}), host("none")]
    wishes = (
        WeightedTerm(10, Term((Expression("disk", "In", ("ssd",)),))),
        WeightedTerm(20, Term((Expression("zone", "Exists"),))),
    )
    found = weighted_scores(engine_with(hosts), guest("g", preferred_hosts=wishes), "preferred_hosts")
    assert found == {"ssd": 66, "both": 200, "none": 0}  # 10 of 30 is 33 %, twice


def test_fewer_soft_taints_are_preferred_threefold():
    soft = [Taint(key, "", "PreferNoSchedule") for key in "xy"]
    hosts = [host("none"), host("one", taints=(soft[0],)), host("two", taints=tuple(soft))]
    assert weighted_scores(engine_with(hosts), guest("g"), "preferred_taints") == {"none": 300, "one": 150, "two": 0}
    tolerant = guest("h", tolerations=(Toleration("y", "Exists"),))
    assert weighted_scores(engine_with(hosts), tolerant, "preferred_taints") == {"none": 300, "one": 0, "two": 0}


def test_a_soft_taint_of_a_host_that_left_no_longer_counts():
    engine = engine_with([host("a")])
    before = [v.total for v in _verdicts(engine, guest("g"))]
    engine.apply(HostJoined(host=host("b", taints=(Taint("t", "", "PreferNoSchedule"),))))
    engine.apply(HostLeft(name="b"))
    assert [v.total for v in _verdicts(engine, guest("h"))] == before
    assert [v.total for v in _verdicts(Engine.restore(engine.checkpoint()), guest("i"))] == before


def _verdicts(engine: Engine, wanted: Guest):
    arrive(engine, wanted)
    return engine.explain(wanted.uid).verdicts
