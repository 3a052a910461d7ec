"""The scheduler configuration: plugins become scorers of one policy, and traps become errors."""

from __future__ import annotations

import pytest

from hostler.errors import InputError
from hostler.model import ScorerUse
from hostler.sim.simon import read_scheduler_config
from tests.sim.simon.files import STOCK, applied, cluster_config, node, pod, scheduler_config, write


def _read(path):
    told: list[str] = []
    return read_scheduler_config(str(path), told.append).policy, [line.split(": ", 1)[1] for line in told]


@pytest.mark.parametrize(
    ("plugin", "scorer"),
    [
        ("BestFitScore", "gpu_best_fit"),
        ("DotProductScore", "dot_product"),
        ("GpuClusteringScore", "gpu_clustering"),
        ("GpuPackingScore", "gpu_packing"),
        ("FGDScore", "fgd"),
    ],
)
def test_each_score_plugin_is_one_of_our_scorers(tmp_path, plugin, scorer):
    policy, told = _read(scheduler_config(tmp_path, (plugin, 1000)))
    assert told == []
    assert policy.scorers == (ScorerUse(scorer, 1000, "", plugin),)
    assert policy.ties == ("rank", "name")
    assert policy.devices == "best"


def test_random_score_draws_a_node_by_lot(tmp_path):
    policy, _ = _read(scheduler_config(tmp_path, ("RandomScore", 1000), gpu_sel="random", pre_score=["RandomScore"]))
    assert policy.scorers == ()
    assert policy.ties == ("random", "name")
    assert policy.devices == "random"


def test_several_plugins_are_one_policy_and_no_weight_means_one(tmp_path):
    path = scheduler_config(tmp_path, ("FGDScore", 500), ("BestFitScore", 0), gpu_sel="FGDScore")
    policy, _ = _read(path)
    assert [(one.name, one.weight) for one in policy.scorers] == [("fgd", 500), ("gpu_best_fit", 1)]
    assert policy.devices == "fgd"
    write(tmp_path / "data/all.yaml", node("a", gpus=2), node("b", gpus=2), pod("p", gpus=1, milli=500))
    assert applied(cluster_config(tmp_path), path, "-o", "json").json["failed"] == 0


def test_stock_plugins_that_nobody_disabled_count_too(tmp_path):
    path = scheduler_config(tmp_path, ("GpuPackingScore", 10), disabled=STOCK[:5])
    policy, told = _read(path)
    assert [one.name for one in policy.scorers] == ["gpu_packing", "near_guests", "least_allocated"]
    assert told == [
        "InterPodAffinity, NodeResourcesLeastAllocated are not disabled under score, so they count too, as there"
    ]
    write(tmp_path / "data/all.yaml", node("a", gpus=2), node("b", gpus=2), pod("p", gpus=1))
    assert applied(cluster_config(tmp_path), path, "-o", "json").json["failed"] == 0


def test_a_star_disables_all_stock_plugins(tmp_path):
    policy, told = _read(scheduler_config(tmp_path, ("GpuPackingScore", 10), disabled=["*"]))
    assert len(policy.scorers) == 1
    assert told == []


@pytest.mark.parametrize("plugin", ["RandomScore", "RLSchedulerScore"])
def test_plugin_without_its_pre_score_would_place_nobody(tmp_path, plugin):
    with pytest.raises(InputError, match=f"{plugin}, which is not enabled under preScore: no pod") as caught:
        _read(scheduler_config(tmp_path, (plugin, 1000)))
    assert caught.value.hint == f"add plugins.preScore.enabled: [{{name: {plugin}}}]"


def test_unregistered_way_to_choose_a_gpu_is_refused(tmp_path):
    with pytest.raises(InputError, match="gpuSelMethod is 'RLSchedulerScore', which no plugin registers") as caught:
        _read(scheduler_config(tmp_path, ("BestFitScore", 1), gpu_sel="RLSchedulerScore"))
    assert caught.value.hint == "one of best, worst, random, FGDScore"


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"scores": [("RandomScore", 1), ("FGDScore", 1)], "pre_score": ["RandomScore"]}, "RandomScore beside others"),
        (
            {
                "scores": [("RandomScore", 1), ("RLSchedulerScore", 1)],
                "pre_score": ["RandomScore", "RLSchedulerScore"],
            },
            "RandomScore beside others",
        ),
        ({"scores": [("Simon", 1)]}, "'Simon', a score plugin that is not supported here"),
        ({"scores": [("FGDScor", 1)]}, "'FGDScor', a score plugin that is not supported here"),
        ({"scores": [("FGDScore", -1)]}, "weight is negative"),
        ({"scores": [("FGDScore", 1), ("FGDScore", 2)]}, "names 'FGDScore' twice"),
        ({"scores": []}, "is empty"),
        ({"scores": [("BestFitScore", 1)], "gpu_sel": "DotProductScore"}, "'DotProductScore', which is not supported"),
        ({"scores": [("BestFitScore", 1)], "gpu_sel": "FGDScore"}, "FGDScore is not enabled under score"),
        (
            {"scores": [("DotProductScore", 1)], "arguments": {"DotProductScore": {"dimExtMethod": "share"}}},
            "DotProductScore with dimExtMethod share and normMethod max",
        ),
        (
            {"scores": [("FGDScore", 1)], "arguments": {"FGDScore": {"normMethod": "mux"}}},
            "normMethod 'mux', which does not exist",
        ),
        ({"scores": [("FGDScore", 1)], "profiles": []}, "has 0 profiles"),
        ({"scores": [("FGDScore", 1)], "extenders": [{"urlPrefix": "x"}]}, "extenders are not supported"),
        ({"scores": [("FGDScore", 1)], "plugins": {"filter": {"disabled": [{"name": "*"}]}}}, "NodeResourcesFit off"),
    ],
)
def test_what_our_scorers_cannot_do_is_refused(tmp_path, parts, problem):
    scores = parts.pop("scores")
    with pytest.raises(InputError, match=problem):
        _read(scheduler_config(tmp_path, *scores, **parts))


def test_dimensions_and_norm_have_no_effect_on_fgd(tmp_path):
    arguments = {"FGDScore": {"dimExtMethod": "extend", "normMethod": "pod"}}
    policy, told = _read(scheduler_config(tmp_path, ("FGDScore", 1), arguments=arguments))
    assert [one.name for one in policy.scorers] == ["fgd"]
    assert told == []


def test_arguments_that_nobody_reads_are_told(tmp_path):
    arguments = {"FGDScore": {"programPath": "x.py"}, "Gandiva": {}}
    _, told = _read(scheduler_config(tmp_path, ("FGDScore", 1), arguments=arguments, parallelism=4, profilez=1))
    assert told[0].startswith("unknown key 'profilez' at the top level does not count")
    assert told[1].startswith("argument 'programPath' of FGDScore does not count")
    assert told[2] == "Gandiva is not enabled, so its arguments do not count"
    assert len(told) == 3


def test_filters_can_be_turned_off(tmp_path):
    off = {"filter": {"enabled": [{"name": "Open-Gpu-Share"}], "disabled": [{"name": "TaintToleration"}]}}
    policy, _ = _read(scheduler_config(tmp_path, ("FGDScore", 1), plugins=off))
    names = [one.name for one in policy.filters]
    assert "taints" not in names
    assert "host_affinity" in names


def test_gpus_and_all_nodes_count_whatever_the_file_says(tmp_path):
    path = scheduler_config(
        tmp_path, ("FGDScore", 1), plugins={"filter": {}, "reserve": {}}, percentageOfNodesToScore=50
    )
    _, told = _read(path)
    assert told == [
        "percentageOfNodesToScore is not 100; here every node is looked at",
        "Open-Gpu-Share is not enabled under filter; here gpus are always counted",
        "Open-Gpu-Share is not enabled under reserve; here gpus are always counted",
    ]
