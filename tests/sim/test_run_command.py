"""``hostler sim run`` from the outside: answers as people and programs read them, and what is refused."""

from __future__ import annotations

import json

import pytest

from tests.cli.running import hostler

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


def test_a_scenario_is_told_in_a_table_and_as_data(scene):
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
    [("opnb", "did you mean openb?"), ("mine.csv", "trace: {path: mine.csv}"), ("none.yaml", "cannot be read")],
)
def test_a_word_that_is_no_experiment_and_no_scenario_is_told_what_it_may_be(word, told):
    refused = hostler("sim", "run", word)
    assert refused.code == 2
    assert told in refused.err
