"""The engine against its slow twin: every decision, host by host, on clusters full of ties; and single kernels."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostler.engine import Engine
from hostler.engine.kernels import devices as kernels_devices
from hostler.engine.kernels import scores as kernels_scores
from hostler.model import (
    Device,
    DeviceRequest,
    Expression,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    MixEntry,
    Policy,
    ScorerUse,
    Taint,
    Term,
    Toleration,
    WeightedTerm,
    amounts,
    labels,
)
from tests.engine import twin as slow
from tests.engine.fleet import GIB, LONG, MIX, QUICK, kernel_fragment, policy
from tests.engine.twin import Twin

POLICIES = (
    "spread", "pack", "capacity_ratio", "first_fit", "least_loaded", "best_fit", "round_robin", "random", "fgd",
    "gpu_best_fit", "dot_product", "gpu_clustering", "gpu_packing",
)  # fmt: skip

# Policies of one's own: arguments, several scorers, negative weights, limits, device rules.
CUSTOM = (
    Policy(
        name="mixed",
        scorers=(
            ScorerUse("least_allocated", 3, '{"resources": {"cpu": 2, "storage": 5, "license": 1}}'),
            ScorerUse("balanced", 2, '{"resources": {"cpu": 1, "memory": 1, "storage": 1}}'),
            ScorerUse("gpu_best_fit", -1),
            ScorerUse("preferred_taints", 1),
        ),
        ties=("rank", "fewer_guests"),
        devices="worst",
        overcommit=(("cpu", 1_500_000),),
        reserve=(("cpu", 250), ("memory", GIB)),
    ),
    Policy(
        name="valley",
        scorers=(ScorerUse("capacity_ratio", 1, '{"points": [[0, 9], [30, 2], [70, 3], [100, 10]]}'),),
        ties=("fewer_guests", "rank", "name"),
    ),
    Policy(name="turns", ties=("fewer_guests", "after_last"), devices="random"),
    Policy(name="ratio", scorers=(ScorerUse("utilization", 2), ScorerUse("free_capacity", -3)), ties=("rank",)),
)


TOLERATIONS = (Toleration("t", "Equal", "1"), Toleration("", "Exists", "", "NoExecute"), Toleration("s", "Exists"))


class ComparedRun:
    """One cluster told to the engine and to the twin; every decision is compared."""

    def __init__(self, rng: Random, policies: list[Policy]) -> None:
        self.rng = rng
        self.engine = Engine(policies, seed=rng.randrange(1000))
        self.twin = Twin(*policies)
        self.names = [p.name for p in policies]
        self.placed: list[str] = []
        self.number = 0

    # -- making things up ---------------------------------------------------------------------------------------------

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def new_host(self, name: str) -> Host:
        rng = self.rng
        capacity = {"cpu": rng.choice([2000, 4000, 4000]), "memory": rng.choice([4, 8]) * GIB}
        if self.chance(60):
            capacity["storage"] = rng.choice([10, 20]) * GIB
        if self.chance(20):
            capacity["guests"] = 3
        if self.chance(30):
            capacity["license"] = rng.choice([1, 2])
        model = rng.choice(["A", "B"])
        devices = [Device("gpu", model)] * rng.choice([0, 0, 1, 2, 3])
        if self.chance(30):
            devices.insert(
                rng.randrange(len(devices) + 1), Device("nic", rng.choice(["X", "Y"]), rng.choice([500, 1000]))
            )
        return Host(
            name=name,
            capacity=amounts(capacity),
            devices=tuple(devices),
            labels=labels({"zone": rng.choice("xyz")} if self.chance(70) else {}),
            taints=self.taints(),
            cordoned=self.chance(8),
            overcommit=(("cpu", rng.choice([500_000, 2_000_000])),) if self.chance(15) else (),
            reserve=(("memory", rng.choice([0, GIB])),) if self.chance(15) else (),
            rank=rng.choice([0, 0, 1]),
        )

    def taints(self) -> tuple[Taint, ...]:
        possible = [Taint("t", "1"), Taint("u", "", "NoExecute"), Taint("s", "", "PreferNoSchedule"),
                    Taint("r", "", "PreferNoSchedule")]  # fmt: skip
        return tuple(taint for taint in possible if self.chance(12))

    def new_spec(self) -> GuestSpec:
        rng = self.rng
        requests = {"cpu": rng.choice([0, 500, 1000]), "memory": rng.choice([0, GIB, 2 * GIB])}
        if self.chance(25):
            requests["storage"] = 5 * GIB
        if self.chance(10):
            requests["license"] = 1
        devices = []
        if self.chance(50):
            count, milli = rng.choice([(1, 300), (1, 500), (1, 1000), (2, 1000), (2, 400)])
            models = rng.choice([(), (), ("A",), ("A", "B"), ("C",)])
            devices.append(DeviceRequest("gpu", count, milli, models))
        if self.chance(15):
            devices.insert(rng.randrange(len(devices) + 1), DeviceRequest("nic", 1, 250, rng.choice([(), ("X",)])))
        zone = Term((Expression("zone", rng.choice(["In", "NotIn"]), ("x", "y")),))
        named = Term(names=(Expression("metadata.name", "NotIn", ("h00", "h01")),))
        exists = Term((Expression("zone", "Exists"),))
        wishes = (WeightedTerm(rng.choice([10, 20]), zone), WeightedTerm(5, named))
        return GuestSpec(
            requests=amounts(requests),
            devices=tuple(devices),
            policy=rng.choice(self.names),
            host_name=rng.choice(["h00", "h03"]) if self.chance(4) else "",
            host_selector=labels({"zone": "x"} if self.chance(10) else {}),
            host_affinity=(rng.choice([zone, named, exists]),) if self.chance(15) else (),
            preferred_hosts=wishes if self.chance(25) else (),
            tolerations=tuple(t for t in TOLERATIONS if self.chance(20)),
        )  # fmt: skip

    # -- telling it ---------------------------------------------------------------------------------------------------

    def join(self, name: str) -> None:
        self.put(self.new_host(name))

    def put(self, host: Host) -> None:
        self.engine.apply(HostJoined(host=host) if host.name not in self.twin.hosts else HostChanged(host=host))
        self.twin.put(host)

    def disturb(self) -> None:
        """Let something happen between two decisions."""
        rng, roll = self.rng, self.rng.randrange(10)
        if roll < 4 and self.placed:
            uid = self.placed.pop(rng.randrange(len(self.placed)))
            self.engine.apply(GuestLeft(uid=uid))
            self.twin.free(uid)
        elif roll < 6 and len(self.twin.hosts) > 1:
            name = rng.choice(sorted(self.twin.hosts))
            host = self.twin.hosts[name]
            self.engine.apply(HostLeft(name=name))
            self.twin.drop(name)
            if self.chance(60):
                self.put(host)
        elif roll < 7:
            self.join(f"n{self.number:03}")
        elif self.twin.hosts:
            name = rng.choice(sorted(self.twin.hosts))
            fresh = self.new_host(name)
            kept = self.twin.hosts[name].devices
            self.put(Host(**{f: getattr(fresh, f) for f in fresh.__struct_fields__} | {"devices": kept}))

    def decide(self, spec: GuestSpec) -> None:
        """Let one guest arrive and compare everything that is known of the decision."""
        uid = f"g{self.number}"
        self.number += 1
        expected = self.twin.decide(spec)
        self.engine.apply(GuestArrived(guest=Guest(name=uid, uid=uid, spec=spec)))
        if self.chance(25):
            self.compare_explanation(uid, expected)
        self.engine.step(self.engine.now)
        actual = self.engine.decision(uid)
        assert {c.reason: c.hosts for c in actual.reasons} == dict(expected.reasons)
        assert actual.hosts == len(self.twin.hosts)
        if not expected.winners:
            assert (actual.host, actual.feasible, actual.total) == ("", 0, None)
            self.engine.apply(GuestLeft(uid=uid))
            return
        assert actual.feasible == expected.feasible
        assert actual.total == expected.total
        assert actual.host in expected.winners
        assert self.twin.why_not_devices(spec, actual.host, actual.devices) is None
        self.engine.apply(GuestBound(uid=uid, host=actual.host))
        self.twin.place(uid, spec, actual.host, actual.devices)
        self.placed.append(uid)
        cluster = self.engine.state.cluster
        row = cluster.row_of[actual.host]
        host = self.twin.hosts[actual.host]
        assert cluster.device_left(row) == self.twin.left(host)
        for number, name in enumerate(cluster.tables.resources.values[: cluster.resource_capacity]):
            if name:  # a number without a name sums up what no host has
                assert cluster.used(row, number) == self.twin.used(host, name), name

    def compare_explanation(self, uid: str, expected: slow.PossibleOutcome) -> None:
        explanation = self.engine.explain(uid)
        assert sorted(explanation.feasible) == sorted(expected.totals)
        for verdict in explanation.verdicts:
            if verdict.fits:
                assert verdict.total == expected.totals[verdict.host]
                assert {s.plugin: s.raw for s in verdict.scores} == expected.raws[verdict.host]
                assert {s.plugin: s.weighted for s in verdict.scores} == expected.weighted[verdict.host]
        primary: dict = {}
        for verdict in explanation.verdicts:
            if not verdict.fits:
                primary[verdict.failures[0].reason] = primary.get(verdict.failures[0].reason, 0) + 1
        assert primary == dict(expected.reasons)


def tell(rng: Random, policies: list[Policy], hosts: int, guests: int) -> None:
    story = ComparedRun(rng, policies)
    for i in range(hosts):
        story.join(f"h{i:02}")
    shapes = [story.new_spec() for _ in range(max(2, guests // 6))]
    for _ in range(guests):
        if story.chance(20):
            story.disturb()
        story.decide(rng.choice(shapes) if story.chance(85) else story.new_spec())


def all_policies() -> list[Policy]:
    return [*(policy(name) for name in POLICIES), *CUSTOM]


@pytest.mark.parametrize("name", [*POLICIES, *(p.name for p in CUSTOM)])
@given(rng=st.randoms(use_true_random=False))
@QUICK
def test_each_policy_decides_as_its_twin_on_small_clusters(name, rng):
    chosen = next(p for p in all_policies() if p.name == name)
    tell(rng, [chosen], hosts=rng.randrange(1, 5), guests=12)


@given(rng=st.randoms(use_true_random=False))
@QUICK
def test_several_policies_in_one_engine_decide_as_their_twins(rng):
    chosen = all_policies()
    rng.shuffle(chosen)
    tell(rng, chosen[: rng.randrange(2, 6)], hosts=rng.randrange(1, 6), guests=15)


@pytest.mark.parametrize("seed", range(6))
def test_all_policies_together_decide_as_their_twins_on_forty_hosts(seed):
    tell(Random(seed), all_policies(), hosts=40, guests=150)


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_decides_as_its_twin_on_forty_hosts(name):
    tell(Random(name), [policy(name)], hosts=40, guests=100)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
def test_all_policies_together_decide_as_their_twins_on_many_clusters(seed):
    tell(Random(seed), all_policies(), hosts=Random(seed).randrange(1, 90), guests=400)


@pytest.mark.long
@given(rng=st.randoms(use_true_random=False))
@LONG
def test_several_policies_in_one_engine_decide_as_their_twins_at_length(rng):
    chosen = all_policies()
    rng.shuffle(chosen)
    tell(rng, chosen[: rng.randrange(1, 8)], hosts=rng.randrange(1, 8), guests=20)


def test_equal_hosts_in_one_block_and_across_blocks_end_ties_alike():
    """Bests are kept by blocks of rows: forty equal hosts, joined in any order, fill up in the order of names."""
    names = [f"h{i:02}" for i in range(40)]
    shuffled = Random(5).sample(names, 40)
    story = ComparedRun(Random(1), [policy("pack")])
    for name in shuffled:
        story.put(Host(name=name, capacity=amounts({"cpu": 1000, "memory": GIB})))
    for _ in names:
        story.decide(GuestSpec(requests=amounts({"cpu": 1000, "memory": GIB})))
    assert [story.engine.decision(f"g{i}").host for i in range(40)] == names


# -- single kernels ---------------------------------------------------------------------------------------------------

whole_numbers = st.one_of(
    st.integers(0, 2**62), st.integers(0, 1000), st.integers(2**56 - 5, 2**56 + 5), st.integers(2**62 - 5, 2**62)
)


@given(part=whole_numbers, whole=whole_numbers)
@example(part=2**62, whole=2**62)
@example(part=0, whole=1)
@example(part=2**62 - 1, whole=2**62)
@example(part=2**53 + 1, whole=2**53 + 3)
@QUICK
def test_percent_is_exact_up_to_2_to_the_62(part, whole):
    part, whole = min(part, whole), max(part, whole, 1)
    assert kernels_scores.percent(np.int64(part), np.int64(whole)) == part * 100 // whole


@given(d=st.integers(1, 2**56), q=st.integers(0, 2**49), rest=st.floats(0, 1, exclude_max=True))
@QUICK
def test_division_by_a_mended_guess_is_exact(d, q, rest):
    q = min(q, (2**62) // d)
    n = q * d + int(rest * d)
    assert kernels_scores.divide(np.int64(n), np.int64(d)) == n // d


def test_percent_is_exact_at_every_step_of_a_hundred():
    rng = Random(11)
    for bits in range(1, 63):
        whole = rng.randrange(2 ** (bits - 1), 2**bits)
        for k in range(101):
            for near in (-1, 0, 1):
                part = min(max(whole * k // 100 + near, 0), whole)
                assert kernels_scores.percent(np.int64(part), np.int64(whole)) == part * 100 // whole, (part, whole)


points = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=11, unique_by=lambda p: p[0])


@given(points=points.map(sorted))
@QUICK
def test_a_broken_line_is_interpolated_as_go_divides(points):
    scaled = [(x, 10 * y) for x, y in points]
    params = np.array([0, 0, len(points), *(n for point in scaled for n in point), 0], dtype=np.int64)
    for use in range(101):
        assert kernels_scores.broken_line(params, 2, use) == slow.on_line(scaled, use)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1, max_size=4
    )
)
@example(rows=[(3, 1, 1), (3, 2, 1)])
@example(rows=[(4, 4, 0), (4, 0, 4), (4, 2, 1)])
@QUICK
def test_the_balanced_score_is_kube_scheduler_s(rows):
    """Each row: limit, used, request of one resource."""
    limit, used, request = (np.array([[row[i] for row in rows]], dtype=np.int64) for i in range(3))
    params = np.zeros(48, dtype=np.int64)
    params[0] = len(rows)
    for i in range(len(rows)):
        params[1 + 3 * i : 4 + 3 * i] = (i, 1, 0)

    def evenness(extra: int) -> int:
        return math.trunc((1 - slow.deviation([min(1.0, (u + extra * r) / most) for most, u, r in rows if most])) * 100)

    expected = 50 + slow.truncated(50 + evenness(1) - evenness(0), 2)
    assert kernels_scores.balanced_score(params, limit, used, 0, request[0]) == expected


mixes = st.lists(
    st.builds(
        MixEntry,
        cpu_millis=st.integers(0, 9),
        device_millis=st.sampled_from([0, 100, 300, 500, 1000]),
        device_count=st.integers(1, 3),
        models=st.sampled_from([(), ("A",), ("B",), ("A", "B")]),
        share=st.floats(0, 1),
    ),
    min_size=1,
    max_size=7,
)


@given(
    mix=mixes,
    gpus=st.lists(st.sampled_from([0, 100, 299, 300, 500, 700, 1000]), max_size=8),
    cpu=st.integers(-2, 10),
    model=st.sampled_from(["A", "B", "C"]),
)
@QUICK
def test_fragmentation_is_the_twin_s_to_the_last_bit(mix, gpus, cpu, model):
    assert kernel_fragment(tuple(mix), gpus, cpu, model) == slow.fragment(
        tuple(mix), gpus, cpu, model if gpus else None
    )


@given(
    gpus=st.lists(st.sampled_from([0, 100, 250, 500, 999, 1000]), min_size=1, max_size=8),
    milli=st.sampled_from([1, 100, 500, 1000]),
    count=st.integers(1, 4),
)
@QUICK
def test_packing_is_the_twin_s(gpus, milli, count):
    left = np.array(gpus, dtype=np.int64)
    assert kernels_devices.packing_score(
        left, np.ones_like(left), len(gpus), 1000 * len(gpus), milli, count
    ) == slow.packing(gpus, milli, count)


@given(delta=st.floats(-9000, 9000))
@QUICK
def test_the_sigmoid_is_truncated(delta):
    assert kernels_devices.sigmoid_score(delta) == slow.sigmoid(delta / 1000)


def test_the_mix_of_the_tests_is_a_whole():
    assert sum(Fraction(e.share).limit_denominator(1000) for e in MIX) == 1
