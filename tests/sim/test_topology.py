"""Racks as labels: of hosts in memory, of folders of nodes, and what they are good for."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from hostler.config import parse_documents, read_documents, write_yaml
from hostler.engine import BUILT_IN, find_policy
from hostler.errors import DuplicateNameError, InputError
from hostler.model import Host
from hostler.sim.scenarios import read_scenario
from hostler.sim.scenarios.simulation import play_scenario
from hostler.sim.simon.folder import read_folder
from hostler.sim.topology import label_folder, with_racks
from tests.cli.cli_in_process import hostler
from tests.docs.page_output import Page
from tests.sim.simon.files import node, pod, write

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/topology.md"
MINUTE = 60 * 10**9


def _labels(path: Path) -> list[dict[str, str]]:
    objects: list[Any] = [document.data for document in read_documents([str(path)])]
    nodes = [one for data in objects for one in data.get("items", [data]) if one["kind"] == "Node"]
    return [one["metadata"].get("labels", {}) for one in nodes]


def _label(folder: Path, *words: str):
    return hostler("sim", "topology", "--data-dir", folder, "--servers-per-rack", "4", *words)


# -- hosts ------------------------------------------------------------------------------------------------------------


def test_hosts_get_racks_in_order_and_keep_what_they_say():
    hosts = [*(Host(name=name) for name in "abc"), Host(name="d", labels=(("rack", "own"), ("zone", "z")))]
    labels = [dict(host.labels) for host in with_racks(hosts, 2)]
    assert labels == [
        {"rack": "rack-0", "server": "srv-0"},
        {"rack": "rack-0", "server": "srv-1"},
        {"rack": "rack-1", "server": "srv-0"},
        {"rack": "own", "server": "srv-1", "zone": "z"},
    ]
    with pytest.raises(InputError):
        with_racks(hosts, 0)


# -- folders ----------------------------------------------------------------------------------------------------------


def test_copy_with_labels_stands_beside_the_original(tmp_path):
    source = write(tmp_path / "sub/nodes.yaml", *(node(f"n{at}", gpus=1) for at in range(9)), pod("p"))
    before = source.read_bytes()

    result = _label(tmp_path)

    assert result.code == 0, result.err
    assert result.row("sub/nodes.yaml") == ["sub/nodes.yaml", "9", "3", "9", "1", "nodes-hier.yaml"]
    assert source.read_bytes() == before
    copy = tmp_path / "sub/nodes-hier.yaml"
    assert [one["rack"] for one in _labels(copy)] == ["rack-0"] * 4 + ["rack-1"] * 4 + ["rack-2"]
    assert [one["server"] for one in _labels(copy)][:6] == ["srv-0", "srv-1", "srv-2", "srv-3", "srv-0", "srv-1"]
    assert all("alibabacloud.com/gpu-card-model" in one for one in _labels(copy))


def test_default_folder_is_data_and_pod_lists_get_their_copy(tmp_path, monkeypatch):
    """The layout and the flags of the script create_hierarchical_yamls.py: a node list and a pod list per workload."""
    nodes = [node(f"n{at}", gpus=1) for at in range(5)]
    for name in ("cpu050", "default"):
        folder = tmp_path / f"data/openb_pod_list_{name}"
        write(folder / "openb_node_list_gpu_node.yaml", *nodes)
        write(folder / f"openb_pod_list_{name}.yaml", pod("p"), pod("q"))
    monkeypatch.chdir(tmp_path)

    result = hostler("sim", "topology")

    assert result.code == 0, result.err
    folder = tmp_path / "data/openb_pod_list_cpu050"
    racks = [one["rack"] for one in _labels(folder / "openb_node_list_gpu_node-hier.yaml")]
    assert racks == ["rack-0"] * 4 + ["rack-1"]
    copy, original = folder / "openb_pod_list_cpu050-hier.yaml", folder / "openb_pod_list_cpu050.yaml"
    assert copy.read_bytes() == original.read_bytes()
    row = ["openb_pod_list_cpu050/openb_pod_list_cpu050.yaml", "0", "0", "0", "2", "openb_pod_list_cpu050-hier.yaml"]
    assert result.row(row[0]) == row
    assert sorted(path.name for path in (tmp_path / "data").rglob("*-hier.yaml")) == [
        "openb_node_list_gpu_node-hier.yaml", "openb_node_list_gpu_node-hier.yaml",
        "openb_pod_list_cpu050-hier.yaml", "openb_pod_list_default-hier.yaml",
    ]  # fmt: skip


def test_copies_alone_are_a_whole_cluster(tmp_path):
    write(tmp_path / "data/nodes.yaml", node("a"), node("b"))
    write(tmp_path / "data/pods.yaml", pod("p"))
    _label(tmp_path)
    for path in (tmp_path / "data/nodes.yaml", tmp_path / "data/pods.yaml"):
        path.unlink()
    found = read_folder(tmp_path, lambda _: None)
    assert [dict(host.labels)["server"] for host in found.hosts] == ["srv-0", "srv-1"]
    assert [one.guest.name for one in found.pods] == ["p"]


def test_pods_away_from_nodes_and_other_objects_get_no_copy(tmp_path):
    write(tmp_path / "nodes/nodes.yaml", node("a"))
    write(tmp_path / "nodes/space.yaml", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    write(tmp_path / "pods/pods.yaml", pod("p"))
    _label(tmp_path)
    assert [path.name for path in tmp_path.rglob("*-hier.yaml")] == ["nodes-hier.yaml"]


def test_missing_default_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = hostler("sim", "topology")
    assert result.code == 2
    assert "'data' does not exist" in result.err


def test_second_run_changes_nothing_and_labels_no_copy(tmp_path):
    write(tmp_path / "nodes.yaml", node("a"), node("b"))
    write(tmp_path / "pods.yaml", pod("p"))
    _label(tmp_path)
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    result = _label(tmp_path)
    assert [result.row(name)[-3:] for name in ("nodes.yaml", "pods.yaml")] == [["up", "to", "date"]] * 2
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    assert sorted(files) == ["nodes-hier.yaml", "nodes.yaml", "pods-hier.yaml", "pods.yaml"]


def test_copy_follows_its_original(tmp_path):
    write(tmp_path / "nodes.yaml", node("a"))
    _label(tmp_path)
    write(tmp_path / "nodes.yaml", node("a"), node("b"))
    _label(tmp_path)
    assert len(_labels(tmp_path / "nodes-hier.yaml")) == 2


def test_in_place_labels_the_file_itself_once(tmp_path):
    path = write(tmp_path / "sub/nodes.yaml", node("a"), node("b", rack="own"))
    write(tmp_path / "sub/pods.yaml", pod("p"))
    assert _label(tmp_path, "--in-place").code == 0
    assert [one["rack"] for one in _labels(path)] == ["rack-0", "own"]
    before = path.stat().st_mtime_ns
    assert "up to date" in _label(tmp_path, "--in-place").out
    assert path.stat().st_mtime_ns == before
    assert sorted(one.name for one in path.parent.iterdir()) == ["nodes.yaml", "pods.yaml"]


def test_in_place_refuses_a_folder_with_copies(tmp_path):
    write(tmp_path / "nodes.yaml", node("a"))
    _label(tmp_path)
    result = _label(tmp_path, "--in-place")
    assert result.code == 2
    assert "has a labelled copy already: nodes-hier.yaml" in result.error


def test_folder_with_both_copies_cannot_be_applied(tmp_path):
    write(tmp_path / "nodes.yaml", node("a"))
    _label(tmp_path)
    with pytest.raises(DuplicateNameError):
        read_folder(tmp_path, lambda _: None)
    (tmp_path / "nodes.yaml").unlink()
    (host,) = read_folder(tmp_path, lambda _: None).hosts
    assert dict(host.labels)["rack"] == "rack-0"


def test_nodes_of_a_list_are_labelled_too(tmp_path):
    write(tmp_path / "list.yaml", {"apiVersion": "v1", "kind": "List", "items": [node("a"), pod("p"), node("b")]})
    found = _label(tmp_path, "-o", "json").json
    assert [(one["nodes"], one["changed"]) for one in found] == [(2, 2)]
    assert [one["server"] for one in _labels(tmp_path / "list-hier.yaml")] == ["srv-0", "srv-1"]


def test_folder_without_nodes_and_broken_files_change_nothing(tmp_path):
    write(tmp_path / "pods.yaml", pod("p"))
    assert "there are no nodes in it" in _label(tmp_path).error
    write(tmp_path / "a.yaml", node("a"))
    (tmp_path / "z.yaml").write_text("a: [")
    assert _label(tmp_path).code == 2
    assert not (tmp_path / "a-hier.yaml").exists()


@pytest.mark.shown_output
def test_command_prints_what_the_guide_shows(tmp_path, monkeypatch):
    write(tmp_path / "data/cluster/nodes.yaml", *(node(f"n{at}") for at in range(9)))
    write(tmp_path / "data/cluster/pods.yaml", *(pod(f"p{at}") for at in range(20)))
    monkeypatch.chdir(tmp_path)
    page = Page("docs/guides/topology.md")
    for step in page.steps:
        result = hostler(*step.command.split()[1:])
        page.compare(step, result.code, result.out + result.err)
    page.finish()


# -- the experiment of the guide ---------------------------------------------------------------------------------------


def _variant(name: str) -> dict:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    content = yaml.safe_load(block)
    team = content["arrivals"][1]
    if name == "one rack":
        team["gangs"]["topology"] = "rack"
    elif name == "over racks":
        team["guest"]["spread"] = [{"topology": "rack", "max_skew": 1, "selector": {"app": "team"}}]
    return content


def _figures(name: str, seed: int) -> list[float]:
    """Return, of the teams: racks, the most members in one, and the mean and 95th percentile of waiting, in minutes."""
    (document,) = parse_documents(write_yaml(_variant(name)).encode(), "guide")
    scene = read_scenario(document, BUILT_IN, seed=seed)
    hosts = with_racks(scene.workload.hosts, 4)
    scene = dataclasses.replace(scene, workload=scene.workload.with_hosts(hosts))
    history = play_scenario(scene, find_policy("pack"), seed)
    rack_of = [dict(host.labels)["rack"] for host in hosts]
    gang_of = scene.workload.gang_of
    racks: dict[int, list[str]] = {}
    for guest, row, sign in zip(history.guest.tolist(), history.row.tolist(), history.sign.tolist(), strict=True):
        if sign > 0 and gang_of[guest] >= 0:
            racks.setdefault(int(gang_of[guest]), []).append(rack_of[row])
    assert [len(members) for members in racks.values()] == [4] * 30
    waited = history.waited_ns[gang_of >= 0] / MINUTE
    spread = np.mean([len(set(members)) for members in racks.values()])
    most = np.mean([max(map(members.count, members)) for members in racks.values()])
    return [float(spread), float(most), float(waited.mean()), float(np.percentile(waited, 95))]


def test_guide_shows_what_a_rule_about_racks_buys_and_costs():
    printed = {}
    for line in GUIDE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in ("anywhere", "one rack", "over racks"):
            printed[cells[0]] = cells[1:]
    found = {name: np.mean([_figures(name, seed) for seed in (1, 2, 3)], axis=0) for name in printed}
    assert {name: [f"{value:.1f}" for value in row] for name, row in found.items()} == printed
    anywhere, one, over = (found[name] for name in ("anywhere", "one rack", "over racks"))
    assert one[0] == 1.0
    assert anywhere[0] > 2.0
    assert over[1] < anywhere[1] < one[1]
    assert anywhere[2] < min(one[2], over[2])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: Node\nmetadata: []\n", "nodes.yaml:2: metadata of a node"),
        ("kind: Node\nmetadata: {labels: {}}\n", "metadata of a node"),
        ("kind: Node\nmetadata: {name: a, labels: 5}\n", "metadata.labels must be a mapping"),
        ("kind: List\nitems: 5\n", "items must be a list"),
    ],
)
def test_nodes_that_are_none_are_refused_and_nothing_is_written(tmp_path, text, problem):
    (tmp_path / "nodes.yaml").write_text(f"{text}")
    written: list[Path] = []
    with pytest.raises(InputError, match=problem):
        label_folder(tmp_path, 4, lambda path, content: written.append(path))
    assert not written
