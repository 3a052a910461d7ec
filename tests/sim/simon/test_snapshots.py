"""Snapshots: exactly the columns of simon, real memory, and pods in the pods' file after descheduling too."""

from __future__ import annotations

import csv

import pytest

from tests.sim.simon.files import applied, cluster_config, node, pod, scheduler_config, write

NODE_COLUMNS = (
    "name,ip,model,cpu,gpu,memory_mib,gpu_mem_mib_each,num_pod,cpu_milli_left,memory_mib_left,"
    + "".join(f"gpu_milli_left_{at},gpu_mem_mib_left_{at}," for at in range(8))
    + "gpu_milli_left,gpu_mem_mib_left"
)
POD_COLUMNS = (
    "pod,namespace,ip,cpu_milli,memory_mib,num_gpu,gpu_index,gpu_mem_ratio,gpu_milli,model,gpu_mem_mib_each,gpu_mem_mib,"
    "gpu_type_req,creation_time"
)


@pytest.fixture
def run(tmp_path):
    write(tmp_path / "data/nodes.yaml", node("g", gpus=2, **{"node-ip": "10.0.0.1"}), node("h"))
    created = "2026-01-01T00:00:00Z"
    write(
        tmp_path / "data/pods.yaml",
        pod("share", cpu="1500m", gpus=1, milli=600, marks={"gpu_card_model": "T4|A10", "creation_time": created}),
        pod("cpu", cpu="15"),
        pod("huge", cpu="99"),
    )

    def started(**custom):
        export = {
            "podSnapshotYamlFilePrefix": str(tmp_path / "out"),
            "nodeSnapshotCSVFilePrefix": str(tmp_path / "out"),
        }
        config = cluster_config(tmp_path, exportConfig=export, **custom)
        result = applied(config, scheduler_config(tmp_path, ("BestFitScore", 1)), "-o", "json")
        assert result.code == 0, result.err
        return result

    return started


def _rows(path):
    with path.open() as stream:
        return {row[next(iter(row))]: row for row in csv.DictReader(stream)}


def test_nodes_have_the_columns_of_simon(run, tmp_path):
    run()
    path = tmp_path / "out/InitSchedule/node-snapshot.csv"
    assert path.read_text().splitlines()[0] == NODE_COLUMNS
    gpu = _rows(path)["g"]
    assert gpu | {
        "ip": "10.0.0.1", "model": "T4", "cpu": "16", "gpu": "2", "memory_mib": "65536", "gpu_mem_mib_each": "15109",
        "num_pod": "1", "cpu_milli_left": "14500", "memory_mib_left": "64512", "gpu_milli_left_0": "400",
        "gpu_mem_mib_left_0": "6043", "gpu_milli_left_1": "1000", "gpu_milli_left_2": "0", "gpu_milli_left": "1400",
    } == gpu  # fmt: skip
    assert _rows(path)["h"]["model"] == "CPU"


def test_pods_have_the_columns_of_simon(run, tmp_path):
    run()
    path = tmp_path / "out/InitSchedule/pod-snapshot.csv"
    assert path.read_text().splitlines()[0] == POD_COLUMNS
    rows = _rows(path)
    assert set(rows) == {"share", "cpu"}
    assert rows["share"] == {
        "pod": "share", "namespace": "default", "ip": "10.0.0.1", "cpu_milli": "1500", "memory_mib": "1024",
        "num_gpu": "1", "gpu_index": "0", "gpu_mem_ratio": "60", "gpu_milli": "600", "model": "T4",
        "gpu_mem_mib_each": "15109", "gpu_mem_mib": "9065", "gpu_type_req": "T4|A10",
        "creation_time": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    assert rows["cpu"]["gpu_type_req"] == "<none>"


def test_after_descheduling_the_file_of_pods_has_pods(run, tmp_path):
    run(descheduleConfig={"ratio": 1, "policy": "fragOnePod"}, workloadInflationConfig={"ratio": 2})
    folder = tmp_path / "out"
    tags = {path.name for path in folder.iterdir()}
    assert {"InitSchedule", "PostEviction", "PostDeschedule"} <= tags
    for tag in tags:
        assert (folder / tag / "pod-snapshot.csv").read_text().splitlines()[0] == POD_COLUMNS
    assert "share" in _rows(folder / "PostDeschedule/pod-snapshot.csv")
    assert "share" not in _rows(folder / "PostEviction/pod-snapshot.csv")


def test_snapshot_of_pods_runs_again_where_it_ran(run, tmp_path):
    first = run().json
    text = (tmp_path / "out/InitSchedule/pod-snapshot.yaml").read_text()
    assert "simon/pod-unscheduled: 'true'" in text
    before = (tmp_path / "out/InitSchedule/pod-snapshot.csv").read_text()
    (tmp_path / "data/pods.yaml").write_text(text)
    again = run().json
    assert again["unscheduled"] == first["unscheduled"] == ["default/huge"]
    assert (tmp_path / "out/InitSchedule/pod-snapshot.csv").read_text() == before


def test_prefix_that_cannot_be_written_is_an_error(tmp_path, run):
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(AssertionError, match="cannot be written"):
        run()
