"""``hostler sim run`` from the outside: answers as people and programs read them, and what is refused."""

from __future__ import annotations

import json

import pytest

from tests.cli.cli_in_process import hostler
from tests.sim.traces.samples import FOLDER

SCENE = """
apiVersion: hostler/v1
kind: Scenario
name: small
hosts: [{name: h, count: 2, capacity: {cpu: 4}}]
arrivals:
- {guest: {name: g, requests: {cpu: 2}}, count: 6, pattern: {kind: at_once}, duration: {kind: fixed, mean: 1h}}
"""


@pytest.fixture
def scene(tmp_path):
    path = tmp_path / "scene.yaml"
    path.write_text(SCENE)
    return path


def test_an_experiment_has_the_promised_keys():
    result = hostler("sim", "run", "openb", "--tune", "0.05", "-o", "json").json
    assert {
        "events", "failed", "failed_by_kind", "gpu_milli_allocated", "gpu_milli_total", "cpu_milli_allocated",
        "memory_bytes_allocated", "gpus_touched", "fragmentation", "curves",
    } <= set(result)  # fmt: skip
    assert set(result["fragmentation"]) == {"q1", "q2", "q3", "q4", "xl", "xr", "no_access", "idle"}
    assert {name: len(values) for name, values in result["curves"].items()} == dict.fromkeys(
        ("alloc", "frag", "frag_ratio"), 131
    )


def test_a_scenario_is_shown_in_a_table_and_as_data(scene):
    told = hostler("sim", "run", str(scene))
    assert told.code == 0
    assert "6 guests, 6 finished" in told.out
    data = hostler("sim", "run", str(scene), "-o", "json").json
    assert (data["finished"], data["waits"]["longest"]) == (6, 3600.0)
    assert json.dumps(data) == json.dumps(hostler("sim", "run", str(scene), "-o", "json").json)


@pytest.mark.parametrize("option", [("--workload", "cpu050"), ("--tune", "2"), ("--data-dir", ".")])
def test_what_is_meant_for_openb_is_refused_with_a_scenario(scene, option):
    refused = hostler("sim", "run", str(scene), *option)
    assert refused.code == 2
    assert f"{option[0]} is for openb" in refused.err


def test_trace_runs_directly():
    done = hostler("sim", "run", FOLDER / "jobs.csv", "--policy", "pack", "-o", "json")
    assert done.code == 0, done.err
    assert (done.json["scenario"], done.json["policy"], done.json["hosts"]) == ("jobs", "pack", 6)
    assert (done.json["guests"], done.json["gpu_peak"]) == (60, 1.0)


def test_trace_with_mapped_columns_runs_on_named_hosts():
    columns = ("name=job", "arrival=submit", "duration=wall", "cpu=cores", "memory=ram")
    words = [word for column in columns for word in ("--map", column)]
    done = hostler("sim", "run", FOLDER / "foreign.csv", *words, "--hosts", "2")
    assert done.code == 0, done.err
    assert done.lines[0].startswith("foreign, policy spread, seed 42: 2 hosts, ")


def test_trace_of_gpu_guests_runs_on_hosts_with_gpus(tmp_path):
    (tmp_path / "jobs.csv").write_text("arrival,duration,cpu,gpus\n0,60,1,2\n0,60,1,8\n")
    result = hostler("sim", "run", tmp_path / "jobs.csv", "-o", "json").json
    assert (result["hosts"], result["finished"], result["gpu_peak"]) == (2, 2, 0.625)


def test_trace_options_are_rejected_for_the_openb_experiment():
    done = hostler("sim", "run", "openb", "--hosts", "3")
    assert (done.code, done.error) == (2, "--hosts is for traces; 'openb' has its own hosts")
    assert done.hint == "run openb as a trace: 'hostler sim run openb/default --hosts …'"


def test_guests_larger_than_every_host_are_noted(scene):
    scene.write_text(SCENE.replace("cpu: 2}}, count", "cpu: 9}}, count"))
    told = hostler("sim", "run", str(scene))
    assert "6 of 6 guests are larger than every host" in told.err


def test_a_file_of_another_kind_is_refused_with_its_line(scene):
    scene.write_text(SCENE.replace("kind: Scenario", "kind: Fleet"))
    refused = hostler("sim", "run", str(scene))
    assert refused.code == 2
    assert "scene.yaml:3: kind is 'Fleet'" in refused.err


@pytest.mark.parametrize(
    ("word", "told"),
    [("opnb", "did you mean openb?"), ("mine.csv", "there is no such file"), ("none.yaml", "cannot be read")],
)
def test_unknown_experiment_error_lists_what_can_be_run(word, told):
    refused = hostler("sim", "run", word)
    assert refused.code == 2
    assert told in refused.err
