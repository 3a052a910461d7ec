"""A folder of objects: every YAML file counts, and copies are refused instead of doubling the cluster."""

from __future__ import annotations

import pytest

from hostler.errors import DuplicateNameError, InputError
from hostler.model.hosts import HOSTNAME
from hostler.sim.simon.folder import read_folder
from tests.sim.simon.files import node, pod, write


def _read(folder):
    told: list[str] = []
    return read_folder(folder, told.append), told


def test_nodes_and_pods_come_by_name_with_their_gpus(tmp_path):
    write(tmp_path / "z.yaml", node("b", gpus=2, model="A10"), pod("q"))
    write(tmp_path / "deep/er/a.yml", node("a"), pod("p", gpus=1, milli=300, marks={"gpu_card_model": "A10|T4"}))
    found, told = _read(tmp_path)
    assert told == []
    assert [host.name for host in found.hosts] == ["a", "b"]
    assert [device.model for device in found.hosts[1].devices] == ["A10", "A10"]
    assert [one.guest.name for one in found.pods] == ["p", "q"]
    (request,) = found.pods[0].spec.devices
    assert (request.count, request.milli, request.models) == (1, 300, ("A10", "T4"))


def test_both_copies_of_a_cluster_are_refused(tmp_path):
    write(tmp_path / "openb_node_list.yaml", node("a"))
    write(tmp_path / "openb_node_list-hier.yaml", node("a", rack="rack-0"))
    with pytest.raises(DuplicateNameError, match=r"both openb_node_list.yaml and openb_node_list-hier.yaml") as caught:
        _read(tmp_path)
    assert "double the cluster" in caught.value.hint


def test_labelled_copy_alone_is_read(tmp_path):
    write(tmp_path / "nodes-hier.yaml", node("a", rack="rack-0"))
    found, _ = _read(tmp_path)
    assert dict(found.hosts[0].labels)["rack"] == "rack-0"


@pytest.mark.parametrize("twice", [node("a"), pod("p")])
def test_name_that_stands_twice_is_refused(tmp_path, twice):
    write(tmp_path / "one.yaml", twice)
    write(tmp_path / "two.yaml", twice)
    with pytest.raises(DuplicateNameError, match="is given twice") as caught:
        _read(tmp_path)
    assert "is there a copy" in caught.value.hint


def test_pod_with_a_node_and_gpu_index_runs_there(tmp_path):
    pinned = pod("p", gpus=1, milli=300, marks={"gpu_index": "1"}, nodeSelector={HOSTNAME: "a"})
    write(tmp_path / "all.yaml", node("a", gpus=2), pinned)
    found, told = _read(tmp_path)
    assert told == []
    assert (found.pods[0].guest.host, found.pods[0].guest.on_devices) == ("a", (1,))


def test_pod_on_a_node_that_is_not_there_is_refused(tmp_path):
    write(tmp_path / "all.yaml", node("a"), pod("p", nodeName="b"))
    with pytest.raises(InputError, match="on node 'b', which is not there"):
        _read(tmp_path)


def test_what_has_no_meaning_here_is_reported(tmp_path):
    write(
        tmp_path / "all.yaml",
        node("a"),
        pod("p", priority=5),
        pod("q", gpus=1, marks={"gpu_index": "0", "deletion_time": "2026-01-01T00:00:00Z"}),
    )
    (tmp_path / "a.json").write_text("{}")
    _, told = _read(tmp_path)
    assert [line.split(": ")[0] for line in told] == [
        str(tmp_path),
        "priorities of 1 pods do not count",
        "deletion times of 1 pods do not count",
        "gpu indices without a node of 1 pods do not count",
    ]


def test_folder_without_objects_is_refused(tmp_path):
    with pytest.raises(InputError, match="no YAML files"):
        _read(tmp_path)
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    with pytest.raises(InputError, match="no Kubernetes object"):
        _read(tmp_path)
