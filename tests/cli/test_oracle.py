"""Cases that were put to a real kube-scheduler get its answer from the command line: files in, JSON out.

Every tenth one: ``tests/oracle`` plays them all on the engine, and only files and printing are added here. Hosts,
scores, victims and the message must be equal. VolumeBinding and DynamicResources are not evaluated and do not count.
``tests/oracle/data/README.md`` says how the cases were made.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.config import write_fleet
from hostler.config.tenancy import DeclaredTenancy
from hostler.manifests import read_manifests
from tests.cli.cli_in_process import Result, hostler

DATA = Path(__file__).parents[1] / "oracle" / "data"
NOT_EVALUATED = {"VolumeBinding", "DynamicResources"}
NAMESPACES: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("default", "other")
]

Case = dict[str, Any]


def cases(name: str) -> list[Any]:
    """Return every tenth case."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [pytest.param(case, id=case["case"]) for case in found[::10]]


def objects_of(case: Case) -> tuple[list[Case], list[Case], list[Case]]:
    """Return nodes, pods that run, and the rest, as they were in the cluster."""
    pods = [
        {**data, "status": {"startTime": data["startTime"]} if "startTime" in data else {}} for data in case["pods"]
    ]
    budgets = [{**data, "status": {"disruptionsAllowed": data["allowed"]}} for data in case.get("pdbs", ())]
    return case["nodes"], pods, [*NAMESPACES, *budgets, case["pod"]]


@pytest.fixture
def ask(tmp_path):
    """Return a function that writes a case to three files and runs a command on them."""

    def run(case: Case, command: str, *words: str) -> Result:
        files: list[str] = []
        for number, objects in enumerate(objects_of(case)):
            path = tmp_path / f"{number}.json"
            path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
            files += ["-f", str(path)]
        return hostler(command, *files, "--policy", "kubernetes", "-o", "json", *words)

    return run


def name_of(case: Case) -> str:
    metadata = case["pod"]["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"


def evaluated(scores: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {
        host: {plugin: score for plugin, score in by_plugin.items() if plugin not in NOT_EVALUATED}
        for host, by_plugin in scores.items()
    }


@pytest.mark.parametrize("case", cases("score"))
def test_hosts_scores_and_message_are_those_of_the_real_scheduler(case, ask):
    result = ask(case, "explain", name_of(case))
    assert result.code == 0
    found = result.json
    assert sorted(found["feasible"]) == sorted(case["feasible"])
    if case["scores"]:
        assert evaluated(found["scores"]) == evaluated(case["scores"])
    if case["chosen"]:
        totals = {host: sum(by_plugin.values()) for host, by_plugin in found["scores"].items()}
        assert totals[case["chosen"]] == totals[found["chosen"]] == max(totals.values())
    assert found["message"] == case["message"]


@pytest.mark.parametrize("case", cases("preempt"))
def test_victims_and_host_are_those_of_the_real_scheduler(case, ask):
    result = ask(case, "place", "--preempt")
    placed = next(guest for guest in result.json["guests"] if guest["name"] == case["pod"]["metadata"]["name"])
    victims = [eviction["guest"] for eviction in result.json["evicted"]]
    assert sorted(victims) == sorted(case["victims"])
    assert all(eviction["preemptor"] == placed["name"] for eviction in result.json["evicted"])
    assert all(eviction["host"] == case["chosen"] for eviction in result.json["evicted"])
    explained = ask(case, "explain", name_of(case)).json
    if case["victims"] or case["chosen"] is None:
        assert placed.get("host") == case["chosen"]
        assert [nomination["host"] for nomination in result.json["nominated"]] == [case["chosen"]] * bool(victims)
    else:  # it fitted without: of hosts that score the same, either takes any
        totals = {host: sum(by_plugin.values()) for host, by_plugin in explained["scores"].items()}
        assert totals[placed["host"]] == totals[case["chosen"]] == max(totals.values())
    assert result.code == (0 if case["chosen"] else 1)
    if case["message"]:
        assert explained["message"] == case["message"].partition(" preemption:")[0]


@pytest.mark.parametrize("case", cases("score"))
def test_a_case_written_as_a_fleet_of_ours_gives_the_same_answer(case, ask, tmp_path):
    of_pods = ask(case, "explain", name_of(case)).json
    found = read_manifests([item for part in objects_of(case) for item in part])
    tenancy = DeclaredTenancy(namespaces=found.namespaces, gangs=found.gangs, budgets=found.budgets)
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps(write_fleet(found.hosts, found.guests, tenancy=tenancy)))
    of_guests = hostler("explain", "-f", fleet, "--policy", "kubernetes", name_of(case), "-o", "json").json
    assert "message" not in of_guests
    for key in ("feasible", "scores", "chosen", "verdicts"):
        assert of_guests[key] == of_pods[key]


@pytest.mark.parametrize("case", cases("preempt"))
def test_what_is_printed_can_be_fed_back_and_moves_nothing(case, ask, tmp_path):
    first = ask(case, "place", "--preempt")
    (tmp_path / "placed.json").write_text(first.out)
    second = hostler("place", "-f", tmp_path / "placed.json", "--preempt", "-o", "json")
    assert second.code == first.code
    assert second.json["guests"] == first.json["guests"]
    assert second.json["hosts"] == first.json["hosts"]
    assert second.json.get("budgets") == first.json.get("budgets")
    assert second.json["evicted"] == []
