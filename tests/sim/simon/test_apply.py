"""``hostler sim apply``: configuration files of simon, from files to figures."""

from __future__ import annotations

import pytest

from hostler.engine import find_policy
from hostler.manifests import guest_to_pod, host_to_node
from hostler.model import Guest
from hostler.sim.fill_experiment import run_fill_experiment
from hostler.sim.openb import openb_experiment
from hostler.sim.traces.openb import read_hosts, read_pods
from tests.cli.cli_in_process import hostler
from tests.sim.simon.files import PUBLISHED, applied, cluster_config, node, pod, scheduler_config, warnings, write

PLUGINS = {
    "BestFitScore": "gpu_best_fit",
    "DotProductScore": "dot_product",
    "GpuClusteringScore": "gpu_clustering",
    "GpuPackingScore": "gpu_packing",
    "FGDScore": "fgd",
}


@pytest.fixture
def small(tmp_path):
    """Two nodes with two gpus each, and three pods that leave one of them idle."""
    write(tmp_path / "data/nodes.yaml", node("a", gpus=2), node("b", gpus=2))
    write(
        tmp_path / "data/sub/pods.yml",
        pod("two", gpus=2),
        pod("share", gpus=1, milli=600),
        pod("cpu", cpu="2"),
    )
    return tmp_path


def _fgd(folder):
    return scheduler_config(
        folder, ("FGDScore", 1000), gpu_sel="FGDScore", arguments={"FGDScore": {"dimExtMethod": "share"}}
    )


def _write_openb(folder, workload):
    names, specs = read_pods(workload)
    write(folder / "data/openb_node_list.yaml", *(host_to_node(host) for host in read_hosts()))
    pods = (guest_to_pod(Guest(name=name, spec=spec)) for name, spec in zip(names, specs, strict=True))
    write(folder / "data/openb_pod_list.yaml", *pods)


def test_golden_run_of_openb_comes_out_through_yaml(tmp_path):
    _write_openb(tmp_path, "default")
    tuning = {"ratio": 1.3, "seed": 42}
    config = cluster_config(tmp_path, shufflePod=True, typicalPodsConfig=PUBLISHED, workloadTuningConfig=tuning)

    result = applied(config, _fgd(tmp_path), "-o", "json")

    assert warnings(result) == []
    found = result.json
    assert (found["events"], found["failed"], found["typical_pods"]) == (10_866, 2_532, 35)
    (stage,) = found["stages"]
    assert stage["milli_gpu"] == [5_919_410, 6_212_000]
    assert stage["milli_cpu"] == [89_928_302, 107_018_000]
    assert stage["memory_bytes"][0] == 328_998_433_325_056
    assert stage["gpus"] == [6_189, 6_212]
    thousands = {name: round(amount / 1000, 2) for name, amount in stage["fragmentation"].items()}
    assert thousands["q1_lack_both"] == 138.43
    assert thousands["q2_lack_gpu"] == 85.86
    assert thousands["q3_satisfied"] == 1.23
    assert thousands["q4_lack_cpu"] == 27.28
    assert thousands["idle"] == 292.59


@pytest.mark.long
@pytest.mark.parametrize(("workload", "seed"), [("default", 43), ("gpuspec33", 42), ("multigpu50", 51)])
def test_published_runs_come_out_under_every_plugin(tmp_path, workload, seed):
    _write_openb(tmp_path, workload)
    tuning = {"ratio": 1.3, "seed": seed}
    config = cluster_config(tmp_path, shufflePod=True, typicalPodsConfig=PUBLISHED, workloadTuningConfig=tuning)
    experiment = openb_experiment(workload, seed)
    for plugin, name in PLUGINS.items():
        gpu_sel = plugin if name == "fgd" else "best"
        found = applied(config, scheduler_config(tmp_path, (plugin, 1000), gpu_sel=gpu_sel), "-o", "json").json
        known = run_fill_experiment(experiment, find_policy(name), seed)
        assert (found["events"], found["failed"]) == (known.events, known.failed)
        assert found["stages"][0]["milli_gpu"][0] == known.gpu_milli_allocated
        assert found["stages"][0]["milli_cpu"][0] == known.cpu_milli_allocated


def test_small_cluster_is_read_at_any_depth_and_summarised(small):
    result = applied(cluster_config(small, typicalPodsConfig=PUBLISHED), _fgd(small))

    assert result.code == 0, result.err
    assert "2 nodes, 3 pods, 3 typical ones" in result.out
    assert "3 events, 0 failed" in result.out
    assert "Cluster Analysis Results (InitSchedule)" in result.out
    assert result.row("MilliGpu") == ["MilliGpu", "65.00%", "2600", "4000"]


def test_pods_that_fit_nowhere_are_dropped_and_named(small):
    write(small / "data/more.yaml", pod("huge", cpu="100"), pod("many", gpus=3))
    found = applied(cluster_config(small), _fgd(small), "-o", "json").json
    assert set(found["unscheduled"]) == {"default/huge", "default/many"}
    assert found["stages"][0]["failed_by_kind"]["other"] == 1


def test_without_shuffling_pods_come_by_creation_time_then_name(tmp_path):
    write(tmp_path / "data/nodes.yaml", node("a", cpu=2))
    late, early = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
    write(
        tmp_path / "data/pods.yaml",
        pod("a-late", marks={"creation_time": late}),
        pod("z-early", marks={"creation_time": early}),
        pod("b-early", marks={"creation_time": early}),
        pod("a-never"),
    )
    found = applied(cluster_config(tmp_path), scheduler_config(tmp_path, ("BestFitScore", 1)), "-o", "json").json
    assert found["unscheduled"] == ["default/a-late", "default/a-never"]


def test_shuffled_orders_follow_from_the_seed(tmp_path):
    write(tmp_path / "data/nodes.yaml", node("a", cpu=10))
    write(tmp_path / "data/pods.yaml", *(pod(f"p{at:02}") for at in range(20)))
    scheduler = scheduler_config(tmp_path, ("BestFitScore", 1))

    def left_over(seed):
        config = cluster_config(tmp_path, shufflePod=True, workloadTuningConfig={"ratio": 0, "seed": seed})
        return applied(config, scheduler, "-o", "json").json["unscheduled"]

    assert left_over(1) == left_over(1)
    assert left_over(1) != left_over(2)


def test_too_little_demand_is_tuned_up_by_clones(small):
    config = cluster_config(small, workloadTuningConfig={"ratio": 2.0, "seed": 3})
    found = applied(config, scheduler_config(small, ("GpuPackingScore", 1)), "-o", "json").json
    assert found["events"] > 3
    assert any("-tuned-" in name for name in found["unscheduled"])


def test_inflation_is_reported_and_taken_back(small):
    write(small / "data/more.yaml", node("c", gpus=8))
    config = cluster_config(
        small, workloadInflationConfig={"ratio": 3}, descheduleConfig={"ratio": 0.5, "policy": "cosSim"}
    )
    found = applied(config, scheduler_config(small, ("GpuPackingScore", 1)), "-o", "json").json
    tags = {stage["tag"]: stage for stage in found["stages"]}
    assert list(tags)[:2] == ["InitSchedule", "ScheduleInflation"]
    assert tags["ScheduleInflation"]["arrived"] > 0
    assert tags["ScheduleInflation"]["pods"] > tags["InitSchedule"]["pods"]
    assert tags["PostDeschedule"]["pods"] == tags["InitSchedule"]["pods"]
    assert tags["DescheduleInflation"]["arrived"] == tags["ScheduleInflation"]["arrived"]


def test_apps_come_after_everything_else(small):
    write(small / "app/pods.yaml", pod("late", gpus=1), pod("later", gpus=2))
    config = cluster_config(small, spec={"appList": [{"name": "web", "path": str(small / "app")}]})
    found = applied(config, scheduler_config(small, ("GpuPackingScore", 1)), "-o", "json").json
    assert [stage["tag"] for stage in found["stages"]] == ["InitSchedule", "App web"]
    assert found["unscheduled"] == ["default/later"]


def test_app_that_repeats_a_pod_is_refused(small):
    write(small / "app/pods.yaml", pod("cpu"))
    config = cluster_config(small, spec={"appList": [{"name": "web", "path": str(small / "app")}]})
    result = applied(config, scheduler_config(small, ("GpuPackingScore", 1)))
    assert result.code == 2
    assert "pod default/cpu of app 'web' is there already" in result.error


def test_new_workload_changes_the_typical_pods(small):
    write(small / "new/pods.yaml", pod("other", gpus=1, milli=300))
    config = cluster_config(small, newWorkloadConfig=str(small / "new"), typicalPodsConfig=PUBLISHED)
    found = applied(config, _fgd(small), "-o", "json").json
    assert found["typical_pods"] == 1


def test_daemons_and_deployments_are_expanded(tmp_path):
    write(tmp_path / "data/nodes.yaml", node("a"), node("b"))
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
    both = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    meta = {"apiVersion": "apps/v1", "metadata": {"name": "x", "namespace": "default"}}
    write(
        tmp_path / "data/apps.yaml",
        {**meta, "kind": "Deployment", "spec": {**both, "replicas": 3}},
        {**meta, "kind": "DaemonSet", "spec": both},
    )
    found = applied(cluster_config(tmp_path), scheduler_config(tmp_path, ("BestFitScore", 1)), "-o", "json").json
    assert found["events"] == 5
    assert found["failed"] == 0


def test_without_a_scheduler_configuration_the_policy_is_ours(small):
    result = hostler("sim", "apply", "-f", cluster_config(small), "--policy", "gpu_packing", "-o", "json")
    assert result.json["policy"] == "gpu_packing"


def test_storage_and_interaction_are_refused(small):
    for words in (["-e", "open-local"], ["-i"]):
        result = hostler("sim", "apply", "-f", cluster_config(small), *words)
        assert result.code == 2
        assert "not supported" in result.err


@pytest.mark.parametrize(
    ("objects", "custom", "problem"),
    [
        ([pod("p", gpus=1, marks={"gpu_index": "5"}, nodeName="a")], {}, "devices that host 'a' does not have"),
        (
            [pod("p", gpus=1, marks={"gpu_index": "x"}, nodeSelector={"kubernetes.io/hostname": "a"})],
            {},
            "not a list of",
        ),
        ([pod("p", cpu="99", nodeName="a")], {}, "pod default/p is on node 'a', which has no room for it"),
        ([pod("p", marks={"creation_time": "yesterday"})], {}, "pod default/p: its creation-time: 'yesterday'"),
        ([pod("p")], {"workloadTuningConfig": {"ratio": 1.3}}, "no pod asks for gpus"),
    ],
)
def test_input_that_cannot_be_right_is_an_error(tmp_path, objects, custom, problem):
    write(tmp_path / "data/all.yaml", node("a", gpus=1), *objects)
    result = applied(cluster_config(tmp_path, **custom), scheduler_config(tmp_path, ("BestFitScore", 1)))
    assert result.code == 2
    assert problem in result.error


def test_fgd_without_typical_pods_is_an_error(tmp_path):
    write(tmp_path / "data/all.yaml", node("a", gpus=1), pod("p"))
    result = applied(cluster_config(tmp_path), _fgd(tmp_path))
    assert result.error == "FGDScore measures by typical pods, and no pod is one"
    assert "isInvolvedCpuPods" in result.hint


def test_empty_cluster_is_measured_too(tmp_path):
    write(tmp_path / "data/all.yaml", node("a", gpus=2))
    found = applied(cluster_config(tmp_path), scheduler_config(tmp_path, ("BestFitScore", 1)), "-o", "json").json
    assert (found["events"], found["stages"][0]["milli_gpu"]) == (0, [0, 2000])
