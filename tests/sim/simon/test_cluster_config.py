"""The cluster configuration: keys that never counted are told, what cannot be done is refused."""

from __future__ import annotations

import pytest

from hostler.errors import InputError
from hostler.sim.simon import read_cluster_config
from tests.sim.simon.files import cluster_config, write


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path


def _read(path):
    told: list[str] = []
    return read_cluster_config(str(path), told.append), [line.split(": ", 1)[1] for line in told]


def test_everything_that_counts_is_read_in_silence(folder):
    config, told = _read(
        cluster_config(
            folder,
            shufflePod=True,
            exportConfig={"podSnapshotYamlFilePrefix": "p", "nodeSnapshotCSVFilePrefix": "n"},
            workloadTuningConfig={"ratio": 1.3, "seed": 42},
            workloadInflationConfig={"ratio": 1.1},
            descheduleConfig={"ratio": 0.1, "policy": "fragMultiPod"},
            typicalPodsConfig={"isInvolvedCpuPods": True, "podPopularityThreshold": 95, "podIncreaseStep": 1},
            newWorkloadConfig=None,
        )
    )
    assert told == []
    assert config.name == "small"
    assert config.folder == folder / "data"
    assert config.custom.export_config.node_snapshot_csv_file_prefix == "n"
    assert config.custom.typical_pods_config.pod_popularity_threshold == 95


def test_typical_pods_have_the_defaults_of_the_artifact(folder):
    config, _ = _read(cluster_config(folder))
    rule = config.custom.typical_pods_config
    assert (rule.is_involved_cpu_pods, rule.pod_popularity_threshold, rule.pod_increase_step) == (False, 60, 10)


def test_unknown_keys_are_told_with_the_nearest(folder):
    _, told = _read(cluster_config(folder, suffelPod=True, typicalPodsConfig={"isConsideredGpuResWeight": True}))
    assert told == [
        "unknown key 'suffelPod' in spec.customConfig does not count; did you mean 'shufflePod'?",
        "unknown key 'isConsideredGpuResWeight' in spec.customConfig.typicalPodsConfig does not count; "
        "did you mean 'gpuResWeight'?",
    ]


def test_new_nodes_and_the_seed_of_inflation_never_counted(folder):
    path = cluster_config(folder, spec={"newNode": "nodes"}, workloadInflationConfig={"ratio": 1, "seed": 233})
    _, told = _read(path)
    assert told[0] == "newNode does not count: no nodes are added"
    assert told[1].startswith("the seed of workloadInflationConfig does not count")


@pytest.mark.parametrize(
    ("spec", "custom", "problem"),
    [
        ({"cluster": {"kubeConfig": "admin.conf"}}, {}, "kubeConfig is not supported"),
        ({"cluster": {}}, {}, "names no folder"),
        ({"cluster": {"customConfig": "nowhere"}}, {}, "'nowhere', which does not exist"),
        ({"appList": [{"name": "a", "path": "data", "chart": True}]}, {}, "charts are not rendered here"),
        ({"appList": [{"name": "a"}]}, {}, "has no path"),
        ({}, {"descheduleConfig": {"policy": "cosSin"}}, "'cosSin', which does not exist"),
        ({}, {"descheduleConfig": {"ratio": 7}}, "descheduleConfig.ratio"),
        ({}, {"shufflePod": "yes"}, "must be true or false"),
    ],
)
def test_what_cannot_be_done_is_refused(folder, spec, custom, problem):
    with pytest.raises(InputError, match=problem.replace(".", r"\.")):
        _read(cluster_config(folder, spec=spec, **custom))


def test_another_kind_of_file_is_refused(folder):
    path = write(folder / "other.yaml", {"apiVersion": "v1", "kind": "Config"})
    with pytest.raises(InputError, match="apiVersion is 'v1'") as caught:
        _read(path)
    assert "simon/v1alpha1" in caught.value.hint


def test_folders_are_found_beside_the_file_too(folder, monkeypatch):
    monkeypatch.chdir("/")
    content = {"apiVersion": "simon/v1alpha1", "kind": "Config", "spec": {"cluster": {"customConfig": "data"}}}
    config, _ = _read(write(folder / "c.yaml", content))
    assert config.folder == folder / "data"
