"""Nodes, namespaces, budgets and groups become facts."""

import msgspec
import pytest

from hostler.kube.api.resources import PRIORITY_CLASSES
from hostler.kube.configuration import default_settings
from hostler.kube.live.snapshot import open_cluster
from hostler.kube.settings import GangRules
from hostler.model import DecisionNote, Gang
from hostler.model.notes import GANG_UNKNOWN
from tests.kube.facts.cluster import (
    BUDGETS,
    CRD_POD_GROUPS,
    NAMESPACES,
    NODES,
    OURS,
    POD_GROUPS,
    PODS,
    FactCluster,
    decoded,
    group,
    kinds,
    named,
    node,
    pod,
)

IN_GROUP = {"schedulingGroup": {"podGroupName": "g"}}


def test_a_heartbeat_is_no_fact():
    cluster = FactCluster()
    (event,) = cluster.nodes(node())
    assert event.host.version == 0
    beat = node(version="2")
    beat["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
    assert cluster.nodes(beat) == []
    beat["status"]["capacity"] = {"cpu": "99"}  # more than pods may use, so it does not count
    assert cluster.nodes(beat) == []
    assert kinds(cluster.nodes(node(cpu="9"))) == ["HostChanged"]
    assert kinds(cluster.nodes(node(cpu="9", spec={"unschedulable": True}))) == ["HostChanged"]
    assert kinds(cluster.drop(NODES, "n1")) == ["HostLeft"]


def test_a_node_that_comes_back_under_its_name_is_another_one():
    cluster = FactCluster()
    cluster.nodes(node())
    cluster.drop(NODES, "n1")
    (event,) = cluster.nodes(node(uid="other", cpu="2"))
    assert (type(event).__name__, event.host.uid) == ("HostJoined", "other")


def test_namespace_labels_include_the_name_label():
    cluster = FactCluster()
    (event,) = cluster.put(NAMESPACES, named("shop", metadata={"labels": {"team": "a"}}))
    assert event.labels == (("kubernetes.io/metadata.name", "shop"), ("team", "a"))
    assert cluster.put(NAMESPACES, named("shop", metadata={"labels": {"team": "a"}, "annotations": {"x": "y"}})) == []
    (event,) = cluster.drop(NAMESPACES, "shop")
    assert event.labels == ()


def test_a_budget_allows_what_its_status_says():
    cluster = FactCluster()
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    (event,) = cluster.put(BUDGETS, named("b", "default", spec=spec, status={"disruptionsAllowed": 2}))
    assert (event.budget.key, event.budget.allowed, event.budget.version) == ("default/b", 2, 0)
    assert cluster.put(BUDGETS, named("b", "default", spec=spec, status={"disruptionsAllowed": 2})) == []
    (event,) = cluster.put(BUDGETS, named("b", "default", spec=spec, status={"disruptionsAllowed": 0}))
    assert event.budget.allowed == 0
    assert kinds(cluster.drop(BUDGETS, "b", "default")) == ["BudgetLeft"]


def test_a_budget_that_turns_into_nonsense_stays_as_it_was():
    cluster = FactCluster()
    cluster.put(BUDGETS, named("b", "default", spec={"selector": {}}, status={"disruptionsAllowed": 1}))
    assert cluster.put(BUDGETS, named("b", "default", status={"disruptionsAllowed": -3})) == []
    assert "default/b" in cluster.engine.view.budgets


@pytest.mark.parametrize(
    ("resource", "data"),
    [(POD_GROUPS, group(count=3)), (CRD_POD_GROUPS, named("g", "default", spec={"minMember": 3}))],
    ids=["built in", "custom"],
)
def test_groups_of_both_forms_are_gangs(resource, data):
    cluster = FactCluster()
    (event,) = cluster.put(resource, data)
    assert event.gang == Gang(name="g", min_count=3)
    assert cluster.put(resource, data) == []
    assert kinds(cluster.drop(resource, "g", "default")) == ["GangLeft"]


def test_the_built_in_form_of_a_group_beats_the_custom_one():
    cluster = FactCluster()
    cluster.put(CRD_POD_GROUPS, named("g", "default", spec={"minMember": 3}))
    (event,) = cluster.put(POD_GROUPS, group(count=2))
    assert event.gang.min_count == 2
    (event,) = cluster.drop(POD_GROUPS, "g", "default")
    assert event.gang.min_count == 3


def test_a_pod_of_a_group_that_is_not_there_waits_and_says_so():
    cluster = FactCluster()
    cluster.nodes(node())
    cluster.pods(pod(**IN_GROUP), pod("b", **IN_GROUP))
    assert cluster.engine.step(cluster.now) == []
    assert cluster.engine.view.gangs.why_not_ready("default/g") == DecisionNote(GANG_UNKNOWN, "default/g")
    cluster.put(POD_GROUPS, group())
    assert kinds(cluster.engine.step(cluster.now)) == ["Bind", "Bind"]


@pytest.mark.parametrize(
    ("spec", "member", "words"),
    [
        ({"priority": 5}, {"priority": 6}, "its priority 6 is not that of its group default/g, 5"),
        ({"preemptionPolicy": "Never"}, {}, "its preemptionPolicy is not that of its group default/g, Never"),
    ],
    ids=["priority", "preemption policy"],
)
def test_a_member_that_does_not_fit_its_group_is_not_told(spec, member, words):
    cluster = FactCluster()
    cluster.put(POD_GROUPS, group(**spec))
    assert cluster.pods(pod(**IN_GROUP, **member)) == []
    assert cluster.view().problem == words
    *_, event = cluster.put(POD_GROUPS, group())
    assert (type(event).__name__, cluster.view().problem) == ("GuestArrived", "")


def test_a_group_that_stops_fitting_its_waiting_members_keeps_them_waiting():
    cluster = FactCluster()
    cluster.nodes(node())
    cluster.put(POD_GROUPS, group())
    cluster.pods(pod(**IN_GROUP), pod("runs", nodeName="n1", **IN_GROUP))
    _, event = cluster.put(POD_GROUPS, group(priority=5))
    assert (event.guest.name, event.guest.spec.unsupported) == ("a", (cluster.view().problem,))
    assert cluster.view("runs").problem == ""


def test_members_of_other_schedulers_are_unfit_until_the_first_leaves():
    cluster = FactCluster()
    cluster.put(POD_GROUPS, group(count=1))
    cluster.pods(pod(**IN_GROUP))
    assert cluster.pods(pod("b", schedulerName="second", **IN_GROUP)) == []
    assert "different schedulers" in cluster.view("b").problem
    left, arrived = cluster.drop(PODS, "a", "default")
    assert (left.uid, arrived.guest.name) == ("uid-default-a", "b")
    assert cluster.view("b").problem == ""


def test_the_class_of_a_group_gives_its_priority():
    cluster = FactCluster()
    cluster.put(POD_GROUPS, group(priorityClassName="high"))
    cluster.pods(pod(priority=7, **IN_GROUP))
    (event,) = cluster.put(PRIORITY_CLASSES, named("high", value=7))
    assert event.gang.priority == 7
    event, member = cluster.put(PRIORITY_CLASSES, named("high", value=8))
    assert (event.gang.priority, member.guest.spec.unsupported) == (8, (cluster.view().problem,))


def test_a_pod_that_names_another_group_stays_in_the_one_it_came_with():
    cluster = FactCluster()
    label = "scheduling.x-k8s.io/pod-group"
    cluster.pods(pod(labels={label: "g"}))
    (event,) = cluster.pods(pod(labels={label: "h"}))
    assert event.guest.gang == "default/g"
    assert "its group has changed" in cluster.view().problem
    assert cluster.pods(pod(labels={label: "h"}, nodeName="n1"))[0].guest.gang == "default/g"


SEED = {"annotations": {"pod-group": "team", "priority": "9"}}
SECOND = 1_000_000_000


def test_annotations_of_the_seed_count_only_when_the_switch_is_on():
    (event,) = FactCluster().pods(pod(**SEED))
    assert (event.guest.gang, event.guest.spec.priority) == ("", 0)
    (event,) = FactCluster(seed_annotations=True).pods(pod(**SEED))
    assert (event.guest.gang, event.guest.spec.priority) == ("default/team", 9)


def test_annotated_group_is_complete_after_a_second_without_members():
    cluster = FactCluster(seed_annotations=True)
    assert cluster.watched.due() is None
    cluster.pods(pod("a", **SEED))
    assert cluster.watched.due() == cluster.now + SECOND
    cluster.now += SECOND // 2
    cluster.pods(pod("b", **SEED))
    assert cluster.watched.due() == cluster.now + SECOND
    assert cluster.watched.tick(cluster.now + SECOND - 1) == []
    (event,) = cluster.told(cluster.watched.tick(cluster.now + SECOND))
    assert event.gang == Gang(name="team", min_count=2)
    assert cluster.watched.due() is None
    assert kinds(cluster.pods(pod("c", **SEED))) == ["GuestArrived"]  # an extra one
    cluster.drop(PODS, "a", "default")
    cluster.drop(PODS, "b", "default")
    assert kinds(cluster.drop(PODS, "c", "default")) == ["GuestLeft", "GangLeft"]


def test_annotated_group_of_a_listing_is_complete_at_once():
    listed = [decoded(PODS, pod(name, **SEED)) for name in ("a", "b")]
    settings = msgspec.structs.replace(default_settings(OURS), seed_annotations=True)
    cluster, facts = open_cluster({("", "pods"): listed}, settings, 0)
    assert facts[-1].gang == Gang(name="team", min_count=2)
    assert cluster.due() is None


def test_annotated_group_with_a_minimum_is_sent_at_once():
    cluster = FactCluster(seed_annotations=True)
    annotations = {"pod-group": "team", "pod-group-min": "4"}
    arrived, told = cluster.pods(pod(annotations=annotations))
    assert (arrived.guest.gang, told.gang.min_count) == ("default/team", 4)
    assert cluster.pods(pod("b", annotations={**annotations, "pod-group-min": "many"})) == []
    assert "not a number of pods" in cluster.view("b").problem


def test_an_object_beats_a_group_of_annotations():
    cluster = FactCluster(seed_annotations=True)
    cluster.pods(pod(annotations={"pod-group": "g", "pod-group-min": "4"}))
    (event,) = cluster.put(POD_GROUPS, group(count=2))
    assert event.gang.min_count == 2
    (event,) = cluster.drop(POD_GROUPS, "g", "default")
    assert event.gang.min_count == 4


def test_group_maximum_keeps_further_members_waiting():
    cluster = FactCluster()
    cluster.nodes(node())
    limited = group(count=2)
    limited["metadata"]["annotations"] = {"hostler.dev/max-count": "3"}
    (event,) = cluster.put(POD_GROUPS, limited)
    assert (event.gang.min_count, event.gang.max_count) == (2, 3)
    cluster.pods(*(pod(name, **IN_GROUP) for name in "abcd"))
    assert kinds(cluster.engine.step(cluster.now)).count("Bind") == 3
    (event,) = cluster.put(POD_GROUPS, group(count=2))
    assert event.gang.max_count == 0
    assert kinds(cluster.engine.step(cluster.now + 60 * SECOND)) == ["Bind"]


@pytest.mark.parametrize("text", ["1", "many", "-3"])
def test_group_with_a_bad_maximum_is_reported_and_no_gang(text):
    cluster = FactCluster()
    bad = group(count=2)
    bad["metadata"]["annotations"] = {"hostler.dev/max-count": text}
    assert cluster.put(POD_GROUPS, bad) == []
    (problem,) = cluster.watched.problems().values()
    assert "hostler.dev/max-count" in problem


def test_annotated_group_with_a_maximum_leaves_the_rest_waiting():
    cluster = FactCluster(seed_annotations=True)
    cluster.nodes(node())
    annotations = {"pod-group": "team", "pod-group-min": "2", "pod-group-max": "2"}
    cluster.pods(*(pod(name, annotations=annotations) for name in "abc"))
    assert cluster.watched.gangs["default/team"] == Gang(name="team", min_count=2, max_count=2)
    assert kinds(cluster.engine.step(cluster.now)).count("Bind") == 2
    assert cluster.pods(pod("d", annotations={**annotations, "pod-group-max": "some"})) == []
    assert "not a number of pods" in cluster.view("d").problem


def test_gang_takes_the_priority_of_its_highest_member_by_rule():
    cluster = FactCluster(gangs=GangRules(priority="highest"))
    cluster.put(POD_GROUPS, group(count=2))
    *_, event = cluster.pods(pod(priority=3, **IN_GROUP))
    assert event.gang.priority == 3
    *_, event = cluster.pods(pod("b", priority=8, **IN_GROUP))
    assert event.gang.priority == 8
    assert cluster.view("a").problem == ""
    left, changed = cluster.drop(PODS, "b", "default")
    assert (type(left).__name__, changed.gang.priority) == ("GuestLeft", 3)


def test_priority_of_a_group_object_wins_over_the_highest_member():
    cluster = FactCluster(gangs=GangRules(priority="highest"))
    (event,) = cluster.put(POD_GROUPS, group(priority=5))
    assert event.gang.priority == 5
    assert cluster.pods(pod(priority=8, **IN_GROUP)) == []
    assert "is not that of its group" in cluster.view().problem
