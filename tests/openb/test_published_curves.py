"""The gpu-sharing policies against the published results of the FGD experiments, bin by bin.

The rules behind the figures: events are pods in a recorded order, a pod that fits nowhere is dropped at once, ties go
to the host of lowest rank. One engine step decides the whole run; the curve is made from its actions.
"""

from __future__ import annotations

import pytest

from bench.openb import SEEDS, WORKLOADS, published_curve, read_workload
from bench.openb_curves import Totals, allocation_curve, place_all, totals
from hostler.engine import Engine
from hostler.model import Bind, GuestLeft, Hold, HostsJoined

DETERMINISTIC = ("fgd", "gpu_best_fit", "dot_product", "gpu_clustering", "gpu_packing")


def curve_of(workload: str, policy: str, seed: int) -> tuple[float, ...]:
    experiment = read_workload(workload, seed)
    return allocation_curve(experiment, place_all(experiment, policy))


def test_cluster_and_pods_have_the_published_sizes():
    experiment = read_workload("default", 42)
    assert len(experiment.hosts) == 1213
    assert sum(len(host.devices) for host in experiment.hosts) == 6212
    assert len(experiment.specs) == 8152
    assert len(experiment.policy("fgd").mix) == 35
    assert len(read_workload("gpuspec33", 42).policy("fgd").mix) == 127


def test_fgd_on_default_ends_exactly_as_the_published_run():
    experiment = read_workload("default", 42)
    assert totals(experiment, place_all(experiment, "fgd")) == Totals(
        gpu_millis=5_919_410,
        cpu_millis=89_928_302,
        memory_bytes=328_998_433_325_056,
        gpus_touched=6189,
        events=10_866,
        failed=2532,
    )


@pytest.mark.parametrize("policy", DETERMINISTIC)
def test_default_allocates_as_published_in_every_bin(policy):
    assert curve_of("default", policy, 42) == published_curve("default", policy, 42)


@pytest.mark.parametrize("workload", ["gpuspec33", "gpushare60"])
def test_fgd_allocates_as_published_in_every_bin(workload):
    assert curve_of(workload, "fgd", 42) == published_curve(workload, "fgd", 42)


def test_one_pod_at_a_time_with_refused_ones_leaving_decides_the_same():
    experiment = read_workload("gpuspec33", 42)
    experiment = experiment._replace(order=experiment.order[:2500])
    engine = Engine([experiment.policy("fgd")])
    engine.apply(HostsJoined(hosts=experiment.hosts))
    one_by_one = []
    for now, event in enumerate(experiment.events(), start=1):
        engine.apply(event)
        (action,) = engine.step(now)
        one_by_one.append(action)
        if isinstance(action, Hold):
            engine.apply(GuestLeft(uid=action.uid))
    at_once = place_all(experiment, "fgd")
    assert any(isinstance(action, Hold) for action in at_once), "the run is too short to refuse anything"
    assert [placement(action) for action in one_by_one] == [placement(action) for action in at_once]


def placement(action):
    return (action.uid, action.host, action.devices) if isinstance(action, Bind) else (action.uid, action.reasons)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", DETERMINISTIC)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_all_runs_in_the_repository_allocate_as_published(workload, policy, seed):
    assert curve_of(workload, policy, seed) == published_curve(workload, policy, seed)
