"""Every case that was put to a real kube-scheduler reads without an error, and nothing of it goes unevaluated."""

import gzip
import json
from pathlib import Path

import pytest

from hostler.manifests import guest_to_pod, host_to_node, read_manifests
from tests.manifests.samples import guest_of, host_of

FOLDER = Path(__file__).parent.parent / "oracle" / "data"


def cases(name):
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def objects_of(case):
    """All objects of a case as they were in the cluster."""
    pods = [
        {**data, "status": {"startTime": data["startTime"]} if "startTime" in data else {}} for data in case["pods"]
    ]
    budgets = [{**data, "status": {"disruptionsAllowed": data["allowed"]}} for data in case.get("pdbs", ())]
    return [*case["nodes"], *pods, *budgets, case["pod"]]


@pytest.mark.parametrize(("name", "count"), [("score", 250), ("preempt", 150)])
def test_all_cases_read_without_a_note_and_come_back_as_they_were(name, count):
    found = cases(name)
    assert len(found) == count
    for case in found:
        read = read_manifests(objects_of(case))
        assert read.notes == (), case["case"]
        assert len(read.hosts) == len(case["nodes"])
        assert len(read.guests) == len(case["pods"]) + 1
        assert all(guest_of(guest_to_pod(guest)) == guest for guest in read.guests), case["case"]
        assert all(host_of(host_to_node(host)) == host for host in read.hosts), case["case"]


def test_what_the_cases_are_about_is_read_and_not_passed_over():
    reads = [read_manifests(objects_of(case)) for name in ("score", "preempt") for case in cases(name)]
    specs = [guest.spec for read in reads for guest in read.guests]
    for field in ("affinity", "anti_affinity", "preferred_affinity", "preferred_anti_affinity", "spread", "ports"):
        assert any(getattr(spec, field) for spec in specs), field
    assert all(spec.images for spec in specs)
    assert any(host.images for read in reads for host in read.hosts)
    assert any(not spec.may_preempt for spec in specs)
    assert any(budget.allowed for read in reads for budget in read.budgets)
    assert any(guest.started for read in reads for guest in read.guests)
    assert {name for read in reads for name in read.namespaces} == {"default", "other"}
