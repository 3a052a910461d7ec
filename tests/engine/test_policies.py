"""Hand-computed tables for every policy: the VM strategies, kube-scheduler's scores, and the gpu-sharing family."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hostler.engine import BUILT_IN, DEFAULT_POLICY, Engine, find_policy, typical_mix
from hostler.errors import InputError, UnknownNameError
from hostler.model import (
    BindFailed,
    Device,
    DeviceRequest,
    Expression,
    Guest,
    GuestBound,
    GuestLeft,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    MixEntry,
    Policy,
    PolicyChanged,
    ScorerUse,
    Taint,
    Term,
    Toleration,
    WeightedTerm,
    amounts,
)
from tests.engine.fleet import (
    GIB,
    MIB,
    SECOND,
    arrive,
    binds,
    devices_left,
    due,
    engine_with,
    guest,
    holds,
    host,
    kernel_fragment,
    place,
    policy,
    reasons,
    spec,
    step,
)


def raw_scores(engine: Engine, wanted: Guest, plugin: str) -> dict[str, int | float]:
    """Return what a scorer says about a pending guest, by host."""
    arrive(engine, wanted)
    return {v.host: s.raw for v in engine.explain(wanted.uid).verdicts for s in v.scores if s.plugin == plugin}


def weighted_scores(engine: Engine, wanted: Guest, plugin: str) -> dict[str, int | float]:
    """Return what a scorer counts after normalising and weighting, by host."""
    arrive(engine, wanted)
    return {v.host: s.weighted for v in engine.explain(wanted.uid).verdicts for s in v.scores if s.plugin == plugin}


# -- the VM strategies: vm-service.md, section 3 ----------------------------------------------------------------------


class Agent:
    """The default agent of those tests: 8 cores, 16000 memory, 100000 disk; of which 6, 12000, 80000 are available."""

    def __init__(self, name: str, cpu=6, memory=12000, disk=80000, *, total=(8, 16000, 100_000), **fields) -> None:
        self.host = Host(
            name=name,
            capacity=amounts({"cpu": total[0] * 1000, "memory": total[1] * MIB, "storage": total[2] * GIB}),
            **fields,
        )
        used = {"cpu": 1000 * (total[0] - cpu), "memory": (total[1] - memory) * MIB, "storage": (total[2] - disk) * GIB}
        self.tenant = Guest(name=f"on {name}", uid=f"on {name}", host=name, spec=GuestSpec(requests=amounts(used)))


def vm(name: str = "vm", cpu: int = 2, memory: int = 2048, disk: int = 20000, **fields) -> Guest:
    requests = amounts({"cpu": cpu * 1000, "memory": memory * MIB, "storage": disk * GIB})
    return Guest(name=name, uid=name, spec=GuestSpec(requests=requests, **fields))


def agents(*fleet: Agent, policies: tuple[str, ...] = ("least_loaded",)) -> Engine:
    engine = engine_with([a.host for a in fleet], *policies)
    arrive(engine, *(a.tenant for a in fleet))
    return engine


NOTHING = {"total": (0, 0, 0), "cpu": 0, "memory": 0, "disk": 0}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"total": (8, 0, 0), "cpu": 6, "memory": 0, "disk": 0}, 0.4 * 0.25, id="cpu 8/6 is a quarter"),
        pytest.param({"total": (8, 0, 0), "cpu": 0, "memory": 0, "disk": 0}, 0.4 * 1.0, id="cpu 8/0 is full"),
        pytest.param({"total": (8, 0, 0), "cpu": 8, "memory": 0, "disk": 0}, 0.0, id="cpu 8/8 is idle"),
        pytest.param({"total": (0, 16000, 0), "cpu": 0, "memory": 12000, "disk": 0}, 0.4 * 0.25, id="memory"),
        pytest.param({"total": (0, 0, 100_000), "cpu": 0, "memory": 0, "disk": 80_000}, 0.2 * 0.2, id="disk"),
        pytest.param({}, 0.4 * 0.25 + 0.4 * 0.25 + 0.2 * 0.2, id="overall 0.24"),
        pytest.param(NOTHING, 0.0, id="zero totals"),
    ],
)
def test_utilisation(fields, expected):
    engine = agents(Agent("a", **fields))
    assert raw_scores(engine, vm(cpu=0, memory=0, disk=0), "utilization") == {"a": expected}


STRATEGIES = [
    pytest.param(
        "least_loaded", [Agent("1", cpu=2), Agent("2", cpu=6), Agent("3", cpu=4)],
        vm(cpu=2, memory=2000, disk=10000), "2",
        id="least loaded takes the idlest cpu",
    ),
    pytest.param(
        "least_loaded", [Agent("1", memory=4000), Agent("2", memory=14000)], vm(cpu=1, memory=2000, disk=10000), "2",
        id="least loaded takes the idlest memory",
    ),
    pytest.param(
        "best_fit", [Agent("1"), Agent("2", 2, 4000, 20000), Agent("3", 4, 8000, 50000)],
        vm(cpu=1, memory=2000, disk=10000), "2", id="best fit takes the least that is enough",
    ),
    pytest.param("least_loaded", [Agent("1", cordoned=True), Agent("2")], vm(), "2", id="an offline agent is left out"),
    pytest.param("least_loaded", [Agent("1", cpu=1), Agent("2")], vm(), "2", id="too little cpu"),
    pytest.param("least_loaded", [Agent("1", memory=2047), Agent("2")], vm(), "2", id="too little memory"),
    pytest.param("least_loaded", [Agent("1", disk=19999), Agent("2")], vm(), "2", id="too little disk"),
    pytest.param("least_loaded", [Agent("1", 2, 2048, 20000)], vm(), "1", id="an exact fit is accepted"),
    pytest.param("least_loaded", [Agent("1", **NOTHING), Agent("2")], vm(), "2", id="zero totals take nothing"),
    pytest.param("best_fit", [Agent("1", **NOTHING), Agent("2")], vm(), "2", id="zero totals take nothing by best fit"),
    pytest.param("least_loaded", [], vm(), "", id="no agents"),
    pytest.param("least_loaded", [Agent("1", cpu=1)], vm(), "", id="one too small"),
    pytest.param("least_loaded", [Agent("1", cordoned=True), Agent("2", cordoned=True)], vm(), "", id="all offline"),
    pytest.param(
        "least_loaded", [Agent("1"), Agent("2", cpu=5, labels=(("arch", "arm64"),))],
        vm(host_selector=(("arch", "arm64"),)), "2", id="a capability beats a roomy host",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "fleet", "wanted", "expected"), STRATEGIES)
def test_the_vm_strategies_choose_as_their_table_says(strategy, fleet, wanted, expected):
    assert place(agents(*fleet, policies=(strategy,)), wanted) == [expected]


def test_best_fit_counts_milli_cores_and_mebibytes_and_gibibytes():
    engine = agents(Agent("a"), Agent("b", 2, 4000, 20000), policies=("best_fit",))
    assert raw_scores(engine, vm(), "free_capacity") == {"a": 6000 + 12000 + 80000, "b": 2000 + 4000 + 20000}


def test_best_fit_is_blind_to_the_size_of_the_request():
    engine = agents(Agent("a"), policies=("best_fit",))
    small = raw_scores(engine, vm("small", cpu=0, memory=0, disk=0), "free_capacity")
    assert small == raw_scores(engine, vm("large", cpu=6), "free_capacity")


def test_a_guest_may_override_the_default_strategy():
    fleet = [Agent("1", cpu=2), Agent("2", cpu=6)]
    assert place(agents(*fleet, policies=("least_loaded", "best_fit")), vm()) == ["2"]
    assert place(agents(*fleet, policies=("least_loaded", "best_fit")), vm(policy="best_fit")) == ["1"]


def test_a_capable_but_starved_agent_is_reported_as_starved():
    engine = agents(Agent("capable", cpu=0, labels=(("kvm", "1"),)), Agent("roomy"))
    arrive(engine, vm(host_selector=(("kvm", "1"),)))
    (hold,) = engine.step(0)
    assert reasons(hold) == {
        "resources: insufficient: cpu": 1,
        "host_affinity: selector mismatch: kvm=1": 1,
    }


def test_two_guests_that_each_fill_a_host_use_both_and_a_third_waits():
    engine = agents(Agent("1", 4, 8192, 50000), Agent("2", 4, 8192, 50000))
    whole = {"cpu": 4, "memory": 8192, "disk": 50000}
    assert place(engine, vm("x", **whole), vm("y", **whole), vm("z", **whole)) == ["1", "2", ""]
    engine.apply(GuestLeft(uid="x"))
    assert binds(engine.step(60 * SECOND)) == {"z": "1"}


@pytest.mark.parametrize("strategy", ["least_loaded", "best_fit"])
def test_ties_go_to_fewer_guests_then_to_the_name(strategy):
    engine = engine_with([host("b"), host("c"), host("a")], strategy)
    free = {"cpu": 0, "memory": 0}
    assert place(engine, *(guest(f"g{i}", **free) for i in range(4))) == ["a", "b", "c", "a"]
    engine.apply(GuestLeft(uid="g1"))
    assert place(engine, guest("h", **free)) == ["b"]


def test_the_default_policy_and_unknown_ones():
    assert find_policy(DEFAULT_POLICY).name == "spread"
    with pytest.raises(UnknownNameError) as caught:
        find_policy("bestfit")
    assert "best_fit" in caught.value.hint


# -- round robin ------------------------------------------------------------------------------------------------------


def turns(engine: Engine, count: int, start: int = 0, **fields) -> list[str]:
    return place(engine, *(guest(f"t{start + i}", cpu=1, memory=1, **fields) for i in range(count)))


def test_round_robin_takes_1_2_3_1():
    engine = engine_with([host(name) for name in "213"], "round_robin")
    assert turns(engine, 4) == ["1", "2", "3", "1"]


def test_round_robin_in_one_step_is_round_robin_in_many():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    arrive(engine, *(guest(f"g{i}", cpu=1, memory=1) for i in range(7)))
    assert [a.host for a in step(engine, 0)] == ["1", "2", "3", "1", "2", "3", "1"]


def test_round_robin_skips_hosts_that_cannot_and_comes_back_to_them():
    engine = engine_with([host("1"), host("2", cordoned=True), host("3")], "round_robin")
    assert turns(engine, 3) == ["1", "3", "1"]
    engine.apply(HostChanged(host=host("2")))
    assert turns(engine, 3, 3) == ["2", "3", "1"]


def test_round_robin_goes_on_after_a_host_that_left():
    engine = engine_with([host(name) for name in "1234"], "round_robin")
    assert turns(engine, 2) == ["1", "2"]
    engine.apply(HostLeft(name="2"))
    assert turns(engine, 3, 2) == ["3", "4", "1"]


def test_round_robin_meets_a_new_host_at_its_place_in_the_order():
    engine = engine_with([host("1"), host("3")], "round_robin")
    assert turns(engine, 1) == ["1"]
    engine.apply(HostJoined(host=host("2")))
    assert turns(engine, 3, 1) == ["2", "3", "1"]


def test_a_refused_guest_takes_no_turn():
    engine = engine_with([host("1"), host("2")], "round_robin")
    assert turns(engine, 1) == ["1"]
    assert place(engine, guest("big", cpu=9000)) == [""]
    assert turns(engine, 1, 1) == ["2"]


def test_round_robin_gives_a_turn_back_when_its_bind_fails():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    assert turns(engine, 1) == ["1"]
    engine.apply(GuestBound(uid="t0", host="1"))
    assert turns(engine, 1, 1) == ["2"]
    engine.apply(BindFailed(uid="t1", host="2"))
    assert turns(engine, 1, 2) == ["2"]


def test_round_robin_gives_no_turn_back_that_a_later_decision_has_passed():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    assert turns(engine, 2) == ["1", "2"]
    engine.apply(BindFailed(uid="t0", host="1"))
    assert turns(engine, 1, 2) == ["3"]


def test_round_robins_of_two_policies_do_not_share_a_position():
    engine = engine_with([host(name) for name in "123"], "round_robin", policy("round_robin", name="other"))
    assert turns(engine, 2) == ["1", "2"]
    assert turns(engine, 2, 2, policy="other") == ["1", "2"]
    assert turns(engine, 1, 4) == ["3"]


def test_a_position_of_round_robin_survives_a_fork_and_a_restore():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    turns(engine, 1)
    for twin in (engine.fork(), Engine.restore(engine.checkpoint())):
        assert turns(twin, 2, 1) == ["2", "3"]


# -- random -----------------------------------------------------------------------------------------------------------


def roomy(names: str, *policies: str, **fields) -> Engine:
    return engine_with([host(name, 10**6, 10**6 * MIB) for name in names], *policies, **fields)


def test_random_takes_one_of_two():
    assert place(roomy("12", "random"), guest("g"))[0] in ("1", "2")


def test_random_takes_every_host_about_as_often():
    counts = Counter(place(roomy("123", "random", seed=7), *(guest(f"g{i}", cpu=1, memory=1) for i in range(300))))
    assert set(counts) == {"1", "2", "3"}
    assert min(counts.values()) > 70


def test_random_is_the_same_for_the_same_seed_and_another_for_another():
    guests = [guest(f"g{i}", cpu=1, memory=1) for i in range(40)]
    assert place(roomy("123", "random", seed=1), *guests) == place(roomy("123", "random", seed=1), *guests)
    assert place(roomy("123", "random", seed=1), *guests) != place(roomy("123", "random", seed=2), *guests)


def test_a_random_choice_does_not_depend_on_what_was_chosen_before():
    guests = [guest(f"g{i}", cpu=1, memory=1) for i in range(20)]
    forwards = dict(zip(guests, place(roomy("123", "random"), *guests), strict=True))
    backwards = dict(zip(guests[::-1], place(roomy("321", "random"), *guests[::-1]), strict=True))
    assert forwards == backwards


def test_another_attempt_is_another_draw():
    engine = roomy("123456789", "random")
    taken = set()
    place(engine, guest("g"), now=0)
    for _ in range(12):
        taken.add(engine.decision("g").host)
        engine.apply(BindFailed(uid="g", host=engine.decision("g").host))
        engine.step(due(engine))
    assert len(taken) > 3


def test_random_devices_are_all_taken_in_time():
    engine = engine_with([host("a", 10**6, 10**12, gpus=4)], "random")
    place(engine, *(guest(f"g{i}", cpu=1, memory=1, gpu=(1, 10)) for i in range(60)))
    counts = Counter(engine.decision(f"g{i}").devices for i in range(60))
    assert set(counts) == {(0,), (1,), (2,), (3,)}


# -- kube-scheduler's scores, from 1.36 on ----------------------------------------------------------------------------

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


FILTERS = [
    pytest.param(host("a", taints=(Taint("t", "1"),)), {}, "taints: untolerated taint: t=1:NoSchedule", id="taint"),
    pytest.param(
        host("a", taints=(Taint("t", "", "NoExecute"),)), {}, "taints: untolerated taint: t:NoExecute", id="no execute"
    ),
    pytest.param(host("a", taints=(Taint("t", "", "PreferNoSchedule"),)), {}, None, id="a soft taint refuses nobody"),
    pytest.param(
        host("a", taints=(Taint("t", "1"),)), {"tolerations": (Toleration("t", "Equal", "1"),)}, None, id="tolerated"
    ),
    pytest.param(
        host("a", taints=(Taint("t", "1"), Taint("u"))), {"tolerations": (Toleration("t", "Equal", "1"),)},
        "taints: untolerated taint: u:NoSchedule", id="the first untolerated taint is named",
    ),
    pytest.param(
        host("a", cordoned=True),
        {"tolerations": (Toleration("node.kubernetes.io/unschedulable", "Exists"),)}, None, id="a daemon on a cordon",
    ),
    pytest.param(host("a", cordoned=True), {}, "cordon: cordoned", id="cordon"),
    pytest.param(host("a"), {"host_name": "b"}, "host_name: not the named host", id="another host is named"),
    pytest.param(host("a"), {"host_name": "a"}, None, id="it is the named host"),
    pytest.param(host("a"), {"selector": {"k": "v"}}, "host_affinity: selector mismatch: k=v", id="selector"),
    pytest.param(
        host("a", labels={"k": "w"}), {"host_affinity": (Term((Expression("k", "In", ("v",)),)),)},
        "host_affinity: affinity mismatch: k=v", id="affinity",
    ),
    pytest.param(
        host("a", labels={"k": "7"}),
        {"host_affinity": (Term((Expression("k", "Gt", ("9",)),)), Term((Expression("k", "Lt", ("9",)),)))}, None,
        id="one of two terms is enough",
    ),
    pytest.param(host("a"), {"host_affinity": (Term(),)}, "host_affinity: affinity mismatch: nothing", id="empty term"),
    pytest.param(
        host("a"), {"host_affinity": (Term(names=(Expression("metadata.name", "In", ("a", "b")),)),)}, None,
        id="a term on the name",
    ),
    pytest.param(host("a", 999), {}, "resources: insufficient: cpu", id="cpu"),
    pytest.param(host("a", 999, 0), {}, "resources: insufficient: cpu", id="the first resource in order is named"),
    pytest.param(host("a", more={"guests": 0}, reserve=(("guests", 1),)), {}, None, id="no limit on guests"),
    pytest.param(host("a", cordoned=True, cpu=0), {}, "cordon: cordoned", id="the first filter in order is named"),
    pytest.param(host("a", overcommit=(("cpu", 250_000),)), {}, None, id="exactly what overcommit leaves"),
    pytest.param(
        host("a", overcommit=(("cpu", 249_999),)), {}, "resources: insufficient: cpu", id="the floor of the ratio"
    ),
    pytest.param(host("a", reserve=(("cpu", 3001),)), {}, "resources: insufficient: cpu", id="a reserve is kept"),
    pytest.param(host("a"), {"gpu": (1, 1)}, "devices: no device: gpu", id="no device"),
    pytest.param(
        host("a", gpus=1, model="A"), {"devices": (DeviceRequest("gpu", 1, 1, ("B",)),)},
        "devices: wrong device model: gpu", id="wrong model",
    ),
    pytest.param(host("a", gpus=1), {"gpu": (2, 1)}, "devices: insufficient devices: gpu", id="too few devices"),
    pytest.param(
        host("a", devices=(Device("gpu", "", 999),)), {"gpu": (1, 1000)}, "devices: insufficient devices: gpu",
        id="no whole device",
    ),
    pytest.param(
        host("a", devices=(Device("gpu", "A"), Device("gpu", "B"))), {"devices": (DeviceRequest("gpu", 2, 1, ("A",)),)},
        "devices: insufficient devices: gpu", id="too few of the model",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "wanted", "expected"), FILTERS)
def test_filters(machine, wanted, expected):
    engine = engine_with([machine])
    arrive(engine, guest("g", **wanted))
    (action,) = engine.step(0)
    if expected is None:
        assert binds([action]) == {"g": "a"}
    else:
        assert reasons(action) == {expected: 1}


def test_a_host_s_overcommit_and_reserve_beat_the_policy_s():
    rich = policy("spread", overcommit=(("cpu", 2_000_000),), reserve=(("memory", GIB),))
    hosts = [host("a", 1000, GIB), host("b", 1000, GIB, overcommit=(("cpu", 1_000_000),), reserve=(("memory", 0),))]
    engine = engine_with(hosts, rich)
    assert place(engine, guest("g", cpu=1500, memory=0), guest("h", cpu=500, memory=GIB)) == ["a", "b"]


def test_guests_count_against_a_limit_on_guests():
    engine = engine_with([host("a", more={"guests": 2})])
    assert place(engine, *(guest(f"g{i}", cpu=0, memory=0) for i in range(3))) == ["a", "a", ""]
    assert reasons(engine.decision("g2")) == {"resources: insufficient: guests": 1}


# -- gpu sharing ------------------------------------------------------------------------------------------------------


def gpu_host(name: str, left: list[int], cpu: int = 16_000, **fields) -> tuple[Host, list[Guest]]:
    """Return a host of whole gpus, and guests that leave so much of each."""
    machine = host(name, cpu, 2**40, gpus=len(left), **fields)
    tenants = [
        Guest(
            name=f"{name}-{i}",
            uid=f"{name}-{i}",
            host=name,
            on_devices=(i,),
            spec=GuestSpec(devices=(DeviceRequest("gpu", 1, 1000 - rest),)),
        )
        for i, rest in enumerate(left)
        if rest < 1000
    ]
    return machine, tenants


def gpu_engine(chosen: str | Policy, *fleet: tuple[Host, list[Guest]]) -> Engine:
    engine = engine_with([machine for machine, _ in fleet], chosen)
    arrive(engine, *(tenant for _, tenants in fleet for tenant in tenants))
    return engine


PACKING = [
    pytest.param([1000, 1000], (1, 300), 31, id="a free host: 33 less its gpus"),
    pytest.param([1000] * 8, (8, 1000), 25, id="a free host of eight"),
    pytest.param([1000] * 20, (1, 1000), 20, id="a free host of twenty: its gpus"),
    pytest.param([1000, 400], (1, 300), 96, id="a share beside another: 100 - 40/10"),
    pytest.param([1000, 400, 300], (1, 300), 97, id="the fullest device that fits counts"),
    pytest.param([1000, 400], (1, 500), 49, id="a fresh device on a used host: 50 less one"),
    pytest.param([1000, 1000, 400], (2, 1000), 48, id="two fresh devices: 50 less two"),
    pytest.param([900, 900, 900], (2, 400), 82, id="two shares: 100 - (90+90)/10"),
    pytest.param([900] * 9, (8, 400), 50, id="never below 50 on used devices"),
    pytest.param([1000] * 18 + [0], (18, 1000), 33, id="never below 33 on a used host"),
    pytest.param([1000, 400], (2, 300), 49, id="one fresh device of two taken"),
]


@pytest.mark.parametrize(("left", "gpu", "expected"), PACKING)
def test_gpu_packing(left, gpu, expected):
    engine = gpu_engine("gpu_packing", gpu_host("a", left))
    assert raw_scores(engine, guest("g", gpu=gpu), "gpu_packing") == {"a": expected}


def test_gpu_packing_prefers_used_devices_then_used_hosts_then_small_free_hosts():
    fleet = [gpu_host("1", [1000] * 4), gpu_host("2", [1000]), gpu_host("3", [1000, 200]), gpu_host("4", [500, 1000])]
    engine = gpu_engine("gpu_packing", *fleet)
    assert place(engine, *(guest(f"g{i}", cpu=0, gpu=(1, 400)) for i in range(3))) == ["4", "3", "3"]
    assert place(engine, guest("whole", cpu=0, gpu=(1, 1000))) == ["4"]
    assert place(engine, guest("next", cpu=0, gpu=(1, 1000))) == ["2"]


CLUSTERING = [
    # b = 25 * (8000 - idle) / 8000 in whole numbers
    pytest.param([1000, 1000], [], (1, 300), 18 + 25, id="no gpu guest yet"),
    pytest.param([1000, 1000], [(1, 300)], (1, 500), 19 + 75, id="only guests of its kind"),
    pytest.param([1000, 1000, 1000], [(1, 300), (1, 1000)], (1, 500), 19 + 50, id="its kind among others"),
    pytest.param([1000, 1000], [(1, 1000)], (1, 500), 21, id="others only"),
    pytest.param([1000, 1000, 1000], [(1, 1000)], (2, 1000), 18, id="one gpu is another kind than two"),
    pytest.param([1000, 1000, 1000], [(2, 400)], (1, 400), 18, id="two shares are another kind than one"),
]


@pytest.mark.parametrize(("left", "tenants", "gpu", "expected"), CLUSTERING)
def test_gpu_clustering(left, tenants, gpu, expected):
    engine = gpu_engine("gpu_clustering", gpu_host("a", left))
    arrive(engine, *(guest(f"t{i}", gpu=each, host="a") for i, each in enumerate(tenants)))
    assert raw_scores(engine, guest("g", gpu=gpu), "gpu_clustering") == {"a": expected}


@pytest.mark.parametrize("name", ["gpu_clustering", "gpu_packing"])
def test_guests_without_gpus_do_not_matter_to_clustering_and_packing(name):
    engine = gpu_engine(name, gpu_host("a", [1000, 300]))
    assert raw_scores(engine, guest("g"), name) == {"a": 0}


VECTORS = [host("a", 128_000, gpus=8), host("b", 64_000, gpus=4), host("c", 64_000, gpus=8)]
HALF: dict[str, Any] = {"cpu": 64_000, "memory": 0, "gpu": (4, 1000)}


def test_gpu_best_fit_is_scaled_from_worst_to_best():
    # a: 100 * (1 - 0.5*0.5 - 0.5*0.5) = 50, b: nothing left over: 100, c: 100 * (1 - 0.5*0.5) = 75
    assert raw_scores(engine_with(VECTORS, "gpu_best_fit"), guest("g", **HALF), "gpu_best_fit") == {
        "a": 50, "b": 100, "c": 75,
    }  # fmt: skip
    assert weighted_scores(engine_with(VECTORS, "gpu_best_fit"), guest("g", **HALF), "gpu_best_fit") == {
        "a": 0, "b": 100_000, "c": 50_000,
    }  # fmt: skip
    assert place(engine_with(VECTORS, "gpu_best_fit"), guest("g", **HALF)) == ["b"]


def test_gpu_best_fit_of_equal_hosts_is_zero_and_goes_by_rank():
    hosts = [host("a", gpus=1, rank=2), host("b", gpus=1, rank=1), host("c", gpus=1, rank=1)]
    engine = engine_with(hosts, "gpu_best_fit")
    assert place(engine, guest("g", gpu=(1, 100))) == ["b"]
    assert engine.decision("g").total == 0


def test_the_dot_product_prefers_the_smaller_product():
    # a: (1*0.5 + 1*0.5)/2 = 0.5, b: (0.25 + 0.25)/2, c: (0.25 + 0.5)/2 = 0.375, truncated
    assert raw_scores(engine_with(VECTORS, "dot_product"), guest("g", **HALF), "dot_product") == {
        "a": 50, "b": 75, "c": 62,
    }  # fmt: skip
    assert place(engine_with(VECTORS, "dot_product"), guest("g", **HALF)) == ["b"]


WHOLE_GPU = MixEntry(cpu_millis=2000, device_millis=1000, device_count=1, share=1.0)
FRAGMENTS = [
    pytest.param([1000, 500], 2000, MixEntry(cpu_millis=2000, share=1.0), 1500.0, id="cpu only, satisfied: all idle"),
    pytest.param([1000, 500], 1999, MixEntry(cpu_millis=2000, share=1.0), 1500.0, id="cpu only, lacking: all idle"),
    pytest.param([1000, 500], 9000, MixEntry(cpu_millis=1, device_millis=100, device_count=1, models=("B",), share=1.0),
                 1500.0, id="no access to the model: all idle"),
    pytest.param([1000, 500], 2000, WHOLE_GPU, 500.0, id="satisfied: the devices that are too small"),
    pytest.param([1000, 1000], 2000, WHOLE_GPU, 0.0, id="satisfied: nothing is lost"),
    pytest.param([1000, 500], 1999, WHOLE_GPU, 1500.0, id="lacking cpu: all idle"),
    pytest.param([900, 500], 2000, WHOLE_GPU, 1400.0, id="lacking gpu: all idle"),
    pytest.param([900, 500], 1999, WHOLE_GPU, 1400.0, id="lacking both: all idle"),
    pytest.param([1000, 500, 499], 0, MixEntry(cpu_millis=0, device_millis=500, device_count=2, share=1.0), 499.0,
                 id="two shares of half a device"),
    pytest.param([1000, 500], 0, MixEntry(cpu_millis=0, device_millis=600, device_count=2, share=1.0), 1500.0,
                 id="one device too few"),
    pytest.param([0, 0], 0, WHOLE_GPU, 0.0, id="nothing idle, nothing lost"),
    pytest.param([1000, 500], 9,
                 MixEntry(cpu_millis=1, device_millis=1000, device_count=1, models=("A", "B"), share=0.25), 125.0,
                 id="its share of the mix"),
]  # fmt: skip


@pytest.mark.parametrize(("gpus", "cpu", "entry", "expected"), FRAGMENTS)
def test_fragmentation_class_by_class(gpus, cpu, entry, expected):
    assert kernel_fragment((entry,), gpus, cpu, "A") == expected


def test_fragmentation_adds_the_classes_up():
    mix = (
        MixEntry(cpu_millis=0, device_millis=1000, device_count=1, share=0.5),  # satisfied: 500 too small
        MixEntry(cpu_millis=9000, device_millis=500, device_count=1, share=0.25),  # lacks cpu: 1500
        MixEntry(cpu_millis=0, share=0.25),  # cpu only: 1500
    )
    assert kernel_fragment(mix, [1000, 500], 100, "A") == 0.5 * 500 + 0.25 * 1500 + 0.25 * 1500


FGD = policy("fgd", mix=(MixEntry(cpu_millis=0, device_millis=1000, device_count=1, share=1.0),))
HUNGRY = policy("fgd", mix=(MixEntry(cpu_millis=2000, device_millis=1000, device_count=1, share=1.0),))

FGD_SCORES = [
    # on the half device: F from 500 to 0: sigmoid(0.5) = 0.622; on the whole one: from 500 to 1000
    pytest.param(FGD, [1000, 500], (1, 500), 0, 62, (1,), id="a share mends a broken device"),
    pytest.param(FGD, [1000], (1, 500), 0, 37, (0,), id="a share breaks a whole device: sigmoid(-0.5)"),
    pytest.param(FGD, [500, 500], (1, 500), 0, 62, (0,), id="of equal devices the first"),
    pytest.param(FGD, [1000, 1000], (1, 1000), 0, 50, (0,), id="a whole gpu costs nothing"),
    pytest.param(FGD, [300, 1000, 1000], (2, 1000), 0, 50, (1, 2), id="two whole gpus leave the rest as it was"),
    pytest.param(FGD, [700, 700], (1, 200), 0, 54, (0,), id="F from 1400 to 1200: sigmoid(0.2)"),
    pytest.param(HUNGRY, [1000], None, 1000, 26, (), id="cpu taken from a gpu: sigmoid(-1)"),
    pytest.param(HUNGRY, [1000], None, 500, 50, (), id="cpu to spare"),
]


@pytest.mark.parametrize(("chosen", "left", "gpu", "cpu", "score", "devices"), FGD_SCORES)
def test_fgd_scores_and_devices(chosen, left, gpu, cpu, score, devices):
    engine = gpu_engine(chosen, gpu_host("a", left, cpu=2500))
    wanted = guest("g", cpu=cpu, memory=0, gpu=gpu)
    assert raw_scores(engine, wanted, "fgd") == {"a": score}
    engine.step(0)
    assert engine.decision("g").devices == devices
    assert engine.decision("g").total == 1000 * score


def test_fgd_prefers_the_host_where_least_is_broken():
    engine = gpu_engine(FGD, gpu_host("a", [1000]), gpu_host("b", [1000, 500]))
    assert place(engine, guest("g", gpu=(1, 500))) == ["b"]


def test_a_gain_below_one_step_of_the_score_is_a_tie_and_goes_by_rank():
    # 30 milli of fragmentation are sigmoid(0.03) = 0.507, which is 50 like no gain at all
    engine = gpu_engine(FGD, gpu_host("mends", [530], rank=2), gpu_host("idle", [1000, 1000], rank=1))
    found = raw_scores(engine, guest("g", cpu=0, gpu=(1, 30)), "fgd")
    assert found == {"mends": 50, "idle": 27}
    engine = gpu_engine(FGD, gpu_host("mends", [530], rank=2), gpu_host("too", [520], rank=1))
    assert place(engine, guest("h", cpu=0, gpu=(1, 20))) == ["too"]


def test_a_host_without_gpus_is_worth_nothing_to_the_mix():
    engine = gpu_engine(FGD, gpu_host("cpu", []), gpu_host("gpu", [1000]))
    assert raw_scores(engine, guest("g"), "fgd") == {"cpu": 50, "gpu": 50}


def test_fgd_needs_a_mix():
    with pytest.raises(InputError, match="mix"):
        Engine([BUILT_IN["fgd"]])


def test_the_typical_mix_is_the_commonest_needs_that_cover_enough():
    shapes = (
        [spec(cpu=3000, gpu=(1, 500))] * 5
        + [spec(cpu=2000, gpu=(1, 1000))] * 3
        + [spec(cpu=0, memory=GIB)] * 1
        + [spec(cpu=1000)] * 1
    )
    everything = typical_mix(shapes, cover_percent=100)
    assert [(e.cpu_millis, e.device_millis, e.device_count, e.share) for e in everything] == [
        (3000, 500, 1, 5 / 10), (2000, 1000, 1, 3 / 10), (1000, 0, 0, 1 / 10), (100, 0, 0, 1 / 10),
    ]  # fmt: skip
    most = typical_mix(shapes, cover_percent=75)
    assert [(e.cpu_millis, e.share) for e in most] == [(3000, (5 / 10) / (8 / 10)), (2000, (3 / 10) / (8 / 10))]


def test_the_typical_mix_keeps_models_apart_and_does_not_look_at_memory():
    shapes = [spec(1, 1, devices=(DeviceRequest("gpu", 1, 500, models),)) for models in (("A", "B"), ("A", "B"), ())]
    shapes.append(spec(1, 2, devices=(DeviceRequest("gpu", 1, 500, ("A", "B")),)))
    assert [(e.models, e.share) for e in typical_mix(shapes)] == [(("A", "B"), 3 / 4), ((), 1 / 4)]
    assert typical_mix([]) == ()


DEVICE_RULES = [
    pytest.param("lowest", [1000, 300, 600, 300], 1, 300, (0,), id="lowest index"),
    pytest.param("best", [1000, 300, 600, 300], 1, 300, (1,), id="best: least left, lowest index of two"),
    pytest.param("worst", [300, 600, 1000, 1000], 1, 300, (2,), id="worst: most left, lowest index of two"),
    pytest.param("lowest", [200, 500, 1000], 1, 400, (1,), id="lowest that fits"),
    pytest.param("best", [200, 1000, 500], 1, 400, (2,), id="best that fits"),
    pytest.param("worst", [200, 500, 1000], 1, 400, (2,), id="worst that fits"),
    pytest.param("best", [300, 900, 400], 2, 300, (0, 2), id="best, two devices"),
    pytest.param("worst", [300, 900, 400], 2, 300, (1, 2), id="worst, two devices"),
    pytest.param("best", [300, 1000, 1000, 1000], 2, 1000, (1, 2), id="whole devices are the lowest free ones, best"),
    pytest.param("worst", [300, 1000, 1000, 1000], 2, 1000, (1, 2), id="whole devices are the lowest free ones, worst"),
    pytest.param(
        "random", [300, 1000, 1000, 1000], 2, 1000, (1, 2), id="whole devices are the lowest free ones, random"
    ),
    pytest.param("random", [200, 300, 200], 1, 300, (1,), id="random among those that fit"),
]


@pytest.mark.parametrize(("rule", "left", "count", "milli", "expected"), DEVICE_RULES)
def test_device_rules(rule, left, count, milli, expected):
    engine = gpu_engine(policy("spread", devices=rule), gpu_host("a", left))
    place(engine, guest("g", gpu=(count, milli)))
    assert engine.decision("g").devices == expected
    for device in expected:
        left[device] -= milli
    assert devices_left(engine, "a") == left


def test_devices_of_other_kinds_and_models_are_passed_over():
    machine = host("a", devices=(Device("nic"), Device("gpu", "A"), Device("gpu", "B"), Device("nic")))
    engine = engine_with([machine])
    wanted = (DeviceRequest("nic", 2, 400), DeviceRequest("gpu", 1, 1000, ("B", "C")))
    assert place(engine, guest("g", devices=wanted)) == ["a"]
    assert engine.decision("g").devices == (0, 3, 2)
    assert devices_left(engine, "a") == [600, 1000, 0, 600]


def test_every_built_in_policy_explains_itself_and_decides():
    for name, built_in in BUILT_IN.items():
        assert built_in.name == name
        assert built_in.summary
        engine = engine_with([host("a", gpus=1), host("b", gpus=2, cpu=0)], name)
        assert place(engine, guest("g", gpu=(1, 500))) == ["a"]
        assert holds(engine.step(0)) == []


def test_a_turn_belongs_to_the_policy_that_took_it_whatever_is_the_default_later():
    engine = engine_with([host(name) for name in "123"], "round_robin")
    assert place(engine, guest("a"), guest("b")) == ["1", "2"]
    engine.apply(PolicyChanged(policies=(policy("spread"), policy("round_robin"))))
    engine.apply(GuestBound(uid="a", host="1"))
    engine.apply(BindFailed(uid="b", host="2"))
    assert place(engine, guest("c", policy="round_robin")) == ["2"]
