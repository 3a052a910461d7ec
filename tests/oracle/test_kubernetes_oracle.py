"""Every case that was put to a real kube-scheduler, played through the engine: the same hosts, scores and victims.

``tests/oracle/data/README.md`` says how the cases were made and what their fields mean.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.engine import BUILT_IN, Engine
from hostler.manifests import Manifests, read_manifests
from hostler.model import (
    Action,
    Bind,
    BudgetChanged,
    Defer,
    Evict,
    Explanation,
    Guest,
    GuestArrived,
    GuestLeft,
    HostsJoined,
    NamespaceChanged,
    Nominate,
    Policy,
)

pytestmark = pytest.mark.early

DATA = Path(__file__).parent / "data"
# What the engine leaves to fronts: it refuses guests with volumes or claims instead of scoring them.
LEFT_TO_FRONTS = {"VolumeBinding", "DynamicResources"}
KUBERNETES = BUILT_IN["kubernetes"]
WITHOUT_PREEMPTION = msgspec.structs.replace(KUBERNETES, preemption=None)


def read_cases(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
        return [msgspec.json.decode(line) for line in lines]


def named(case: dict[str, Any]) -> str:
    return case["case"]


SCORED = read_cases("score")
PREEMPTED = read_cases("preempt")


def namespace(name: str) -> dict[str, Any]:
    own_name = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": own_name}}


def bound_pod(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "status": {"startTime": pod["startTime"]}} if "startTime" in pod else pod


def budget(pdb: dict[str, Any]) -> dict[str, Any]:
    return {**pdb, "status": {"disruptionsAllowed": pdb["allowed"]}}


def read_case(case: dict[str, Any]) -> Manifests:
    """Read all objects of a case; the pod to place comes last."""
    manifests = read_manifests(
        [
            namespace("default"),
            namespace("other"),
            *case["nodes"],
            *map(bound_pod, case["pods"]),
            *map(budget, case.get("pdbs", ())),
            case["pod"],
        ]
    )
    assert manifests.notes == ()
    return manifests


def engine_of(manifests: Manifests, policy: Policy) -> tuple[Engine, Guest]:
    """Return an engine that knows everything and has not decided, and the guest to place."""
    engine = Engine([policy])
    for name, marks in manifests.namespaces.items():
        engine.apply(NamespaceChanged(name=name, labels=marks))
    engine.apply(HostsJoined(hosts=manifests.hosts))
    for each in manifests.budgets:
        engine.apply(BudgetChanged(budget=each))
    for guest in manifests.guests:
        engine.apply(GuestArrived(guest=guest))
    return engine, manifests.guests[-1]


def weighted_scores(explanation: Explanation) -> dict[str, dict[str, int | float]]:
    return {v.host: {s.plugin: s.weighted for s in v.scores} for v in explanation.verdicts if v.fits}


def reference_scores(case: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {
        node: {plugin: score for plugin, score in scores.items() if plugin not in LEFT_TO_FRONTS}
        for node, scores in case["scores"].items()
    }


def names_of(actions: list[Action], kind: type[Action]) -> list[str]:
    return sorted(action.guest for action in actions if isinstance(action, kind))


def hosts_of(actions: list[Action], kind: type[Bind | Nominate]) -> list[str]:
    return [action.host for action in actions if isinstance(action, kind)]


@pytest.mark.parametrize("case", SCORED, ids=named)
def test_hosts_and_weighted_scores_are_those_of_kube_scheduler(case):
    engine, guest = engine_of(read_case(case), WITHOUT_PREEMPTION)
    explanation = engine.explain(guest.uid)
    assert sorted(explanation.feasible) == case["feasible"]
    if case["scores"]:  # with fewer than two feasible nodes kube-scheduler scores nothing
        assert weighted_scores(explanation) == reference_scores(case)


@pytest.mark.parametrize("case", SCORED, ids=named)
def test_guest_gets_the_best_total_of_kube_scheduler_or_waits(case):
    engine, guest = engine_of(read_case(case), WITHOUT_PREEMPTION)
    actions = engine.step(0)
    if not case["feasible"]:
        assert names_of(actions, Defer) == [guest.name]
        assert case["chosen"] is None
        return
    totals = {node: sum(scores.values()) for node, scores in case["scores"].items()}
    best = [node for node in case["feasible"] if totals.get(node, 0) == max(totals.values(), default=0)]
    assert case["chosen"] in best
    assert hosts_of(actions, Bind)[0] in best


@pytest.mark.parametrize("case", [case for case in PREEMPTED if case["victims"]], ids=named)
def test_victims_and_the_host_they_make_room_on_are_kube_scheduler_s(case):
    engine, guest = engine_of(read_case(case), KUBERNETES)
    actions = engine.step(0)
    assert names_of(actions, Evict) == sorted(case["victims"])
    assert hosts_of(actions, Nominate) == [case["chosen"]]
    for action in actions:
        if isinstance(action, Evict):
            assert action.preemptor == guest.uid
            engine.apply(GuestLeft(uid=action.uid))
    assert hosts_of(engine.step(0), Bind) == [case["chosen"]]


@pytest.mark.parametrize("case", [case for case in PREEMPTED if not case["victims"]], ids=named)
def test_nobody_is_evicted_where_kube_scheduler_evicted_nobody(case):
    engine, guest = engine_of(read_case(case), KUBERNETES)
    verdicts = [v for v in engine.explain(guest.uid).verdicts if v.fits]
    best = [v.host for v in verdicts if v.total == verdicts[0].total]
    actions = engine.step(0)
    assert names_of(actions, Evict) == []
    if case["chosen"] is None:
        assert names_of(actions, Defer) == [guest.name]
    else:  # it fitted; both draw among the best
        assert case["chosen"] in best
        assert hosts_of(actions, Bind)[0] in best


def test_no_case_is_missing():
    assert (len(SCORED), len({named(case) for case in SCORED})) == (250, 250)
    assert (len(PREEMPTED), len({named(case) for case in PREEMPTED})) == (150, 150)


def test_the_cases_show_every_plugin_and_every_outcome():
    """A test against an empty or lopsided set of cases would show nothing."""
    plugins = {plugin for case in SCORED for scores in reference_scores(case).values() for plugin in scores}
    assert plugins == {use.shown_as for use in KUBERNETES.scorers}
    outcomes = {(bool(case["victims"]), case["chosen"] is not None) for case in PREEMPTED}
    assert outcomes == {(True, True), (False, True), (False, False)}
