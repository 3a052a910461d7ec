"""Pods become guests: which ones, with what shape, and when."""

import pytest

from hostler.kube.api.resources import PODS, PRIORITY_CLASSES, REPLICA_SETS, SERVICES
from hostler.model import GuestArrived, GuestLeft
from tests.kube.facts.cluster import OURS, FactCluster, kinds, named, node, pod

DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
RUNS = {"nodeName": "n1"}


def test_a_waiting_pod_of_a_profile_arrives_with_the_policy_of_the_profile():
    cluster = FactCluster()
    (event,) = cluster.pods(pod())
    assert isinstance(event, GuestArrived)
    assert (event.guest.name, event.guest.uid, event.guest.host) == ("a", "uid-default-a", "")
    assert (event.guest.spec.policy, event.guest.version, event.at) == ("kubernetes", 0, cluster.now)
    (event,) = cluster.pods(pod("b", schedulerName="second"))
    assert event.guest.spec.policy == "best_fit"


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "another scheduler's"])
def test_pod_with_a_node_holds_its_room_whatever_placed_it(ours):
    cluster = FactCluster()
    cluster.nodes(node())
    (event,) = cluster.pods(pod(ours=ours, **RUNS))
    assert (event.guest.host, event.guest.spec.requests) == ("n1", (("cpu", 1000),))
    assert event.guest.spec.policy == ("kubernetes" if ours else "")


def test_pod_on_unknown_node_is_sent_and_counted_when_the_node_comes():
    cluster = FactCluster()
    assert kinds(cluster.pods(pod(**RUNS))) == ["GuestArrived"]
    cluster.nodes(node())
    records = cluster.engine.view.records
    assert {uid for uid, record in records.items() if record.host == "n1"} == {"uid-default-a"}


@pytest.mark.parametrize(
    "fields",
    [
        {"ours": False},
        {"schedulingGates": [{"name": "g"}]},
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}, **RUNS},
        DELETED,
    ],
    ids=["of another scheduler", "gated", "ended", "failed on a node", "deleted before it was placed"],
)
def test_who_wants_no_place_and_holds_none_is_not_told(fields):
    cluster = FactCluster()
    assert cluster.pods(pod(**fields)) == []


def test_a_gated_pod_is_visible_and_arrives_when_its_gates_go():
    cluster = FactCluster()
    cluster.pods(pod(schedulingGates=[{"name": "g"}]))
    assert cluster.view().is_gated
    assert (cluster.watched.counts().gated, cluster.watched.counts().pending) == (1, 0)
    assert kinds(cluster.pods(pod())) == ["GuestArrived"]
    assert (cluster.watched.counts().gated, cluster.watched.counts().pending) == (0, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, DELETED),
        ({}, {"status": {"phase": "Failed"}}),
        (RUNS, {"status": {"phase": "Succeeded"}, **RUNS}),
    ],
    ids=["deleted before it was placed", "failed", "succeeded"],
)
def test_a_pod_that_ends_leaves_once_and_never_comes_back(before, after):
    cluster = FactCluster()
    cluster.pods(pod(**before))
    assert cluster.pods(pod(**after)) == [GuestLeft(uid="uid-default-a", at=cluster.now)]
    assert cluster.pods(pod(**before)) == []
    assert cluster.drop(PODS, "a", "default") == []


def test_a_running_pod_that_is_deleted_holds_its_room_until_it_is_gone():
    cluster = FactCluster()
    cluster.pods(pod(**RUNS))
    (event,) = cluster.pods(pod(**RUNS, **DELETED))
    assert event.guest.spec.is_leaving
    assert event.guest.host == "n1"
    assert cluster.view().is_leaving
    assert kinds(cluster.drop(PODS, "a", "default")) == ["GuestLeft"]
    assert cluster.watched.pods == {}


def test_a_pod_recreated_under_its_name_is_another_guest():
    cluster = FactCluster()
    cluster.pods(pod(uid="one"))
    left, arrived = cluster.pods(pod(uid="two"))
    assert (left.uid, arrived.guest.uid) == ("one", "two")
    assert list(cluster.watched.pods) == ["two"]


def test_a_pod_that_is_bound_changes_and_its_progress_is_no_fact():
    cluster = FactCluster()
    cluster.pods(pod())
    (event,) = cluster.pods(pod(**RUNS))
    assert (type(event).__name__, event.guest.host) == ("GuestChanged", "n1")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert cluster.pods(pod(**RUNS, status=status)) == []
    assert kinds(cluster.pods(pod(**RUNS, status={**status, "startTime": "2026-01-01T00:00:09Z"}))) == ["GuestChanged"]


def test_watch_confirming_our_own_bind_sends_no_fact():
    cluster = FactCluster()
    cluster.pods(pod())
    cluster.watched.note_bound("uid-default-a", "n1")
    assert cluster.pods(pod(labels={"late": "news"})) == []  # from before the bind
    (event,) = cluster.pods(pod(labels={"late": "news"}, **RUNS))
    assert event.guest.host == "n1"
    cluster.pods(pod("b"))
    cluster.watched.note_bound("uid-default-b", "n1")
    assert cluster.pods(pod("b", **RUNS)) == []


def test_a_pod_resized_in_place_holds_another_amount():
    cluster = FactCluster()
    cluster.pods(pod(**RUNS))
    (event,) = cluster.pods(pod(cpu="3", **RUNS))
    assert (type(event).__name__, event.guest.spec.requests) == ("GuestChanged", (("cpu", 3000),))


def test_equal_pods_share_one_shape():
    cluster = FactCluster()
    events = cluster.pods(*(pod(f"p{at}") for at in range(3)))
    assert len({id(event.guest.spec) for event in events}) == 1


def test_shapes_that_nobody_has_any_more_are_forgotten():
    cluster = FactCluster()
    for at in range(3000):
        cluster.watched.take(PODS, [], 0)
        cluster.pods(pod(cpu=f"{at}m"))
    assert len(cluster.watched._pods._specs) <= 1100


def test_the_view_of_a_pod_has_what_acting_on_it_needs():
    cluster = FactCluster()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    status = {"phase": "Pending", "nominatedNodeName": "n3", "conditions": [condition]}
    cluster.pods(pod(priority=7, status=status, schedulingGroup={"podGroupName": "g"}))
    view = cluster.view()
    assert (view.uid, view.version, view.node, view.scheduler_name) == ("uid-default-a", "7", "", OURS)
    assert (view.priority, view.is_ours, view.nominated, view.group) == (7, True, "n3", "default/g")
    assert view.condition == ("Unschedulable", "0/3 nodes")
    assert view.created == 1_767_225_600 * 10**9
    assert view.problem == ""


def test_nothing_is_sent_before_opening_and_all_is_sent_in_order_then():
    cluster = FactCluster(is_open=False)
    early = {"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}}
    assert cluster.pods(pod("late"), pod("b", **early), pod("a", **early), pod("gone")) == []
    shared = {"annotations": {"alibabacloud.com/gpu-milli": "500", "alibabacloud.com/gpu-index": "1"}}
    cluster.pods(pod("runs", **RUNS), pod("shares", **RUNS, **shared))
    cluster.drop(PODS, "gone", "default")
    cluster.nodes(node(allocatable={"alibabacloud.com/gpu-count": "2"}))
    events = cluster.open()
    assert kinds(events) == ["HostsJoined", *["GuestArrived"] * 5]
    assert [event.guest.name for event in events[1:]] == ["shares", "runs", "a", "b", "late"]
    assert events[1].guest.on_devices == (1,)


def test_a_service_that_changes_concerns_the_waiting_pods_that_it_selects():
    cluster = FactCluster()
    web = {"labels": {"app": "web"}}
    cluster.pods(pod("waits", **web), pod("runs", **web, **RUNS), pod("other", labels={"app": "db"}))
    cluster.pods(pod("elsewhere", namespace="shop", **web))
    (event,) = cluster.put(SERVICES, named("s", "default", spec={"selector": {"app": "web"}}))
    assert (event.guest.name, event.guest.spec.siblings.text()) == ("waits", "app=web")
    assert cluster.put(SERVICES, named("s", "default", spec={"selector": {"app": "web"}})) == []
    (event,) = cluster.drop(SERVICES, "s", "default")
    assert event.guest.spec.siblings is None


def test_changed_replica_set_updates_waiting_pods_but_not_a_bound_shape():
    cluster = FactCluster()
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}]}
    cluster.pods(pod("mine", metadata=owner), pod("stranger"))
    replica_set = named("rs", "default", spec={"selector": {"matchLabels": {"app": "web"}}})
    (event,) = cluster.put(REPLICA_SETS, replica_set)
    assert (event.guest.name, event.guest.spec.siblings.text()) == ("mine", "app=web")
    (bound,) = cluster.pods(pod("mine", metadata=owner, **RUNS))
    assert bound.guest.spec is event.guest.spec
    assert cluster.drop(REPLICA_SETS, "rs", "default") == []


def test_a_priority_class_counts_for_pods_that_have_no_number_of_their_own():
    cluster = FactCluster()
    cluster.pods(pod("named", priority=None, priorityClassName="high"), pod("numbered"))
    (event,) = cluster.put(PRIORITY_CLASSES, named("high", value=9))
    assert (event.guest.name, event.guest.spec.priority) == ("named", 9)
    (event,) = cluster.drop(PRIORITY_CLASSES, "high")
    assert event.guest.spec.priority == 0


def test_devices_missing_on_the_node_are_a_problem_not_a_contradiction():
    cluster = FactCluster()
    gpus = {"alibabacloud.com/gpu-count": "2"}
    shared = {"annotations": {"alibabacloud.com/gpu-milli": "500", "alibabacloud.com/gpu-index": "1"}}
    cluster.nodes(node(allocatable=gpus))
    (event,) = cluster.pods(pod(**RUNS, **shared))
    assert event.guest.on_devices == (1,)
    changed, guest = cluster.nodes(node(allocatable={"alibabacloud.com/gpu-count": "1"}))
    assert (len(changed.host.devices), guest.guest.on_devices) == (1, ())
    assert cluster.view().problem == "its annotations name devices that its node does not have"
    _, guest = cluster.nodes(node(allocatable=gpus))
    assert (guest.guest.on_devices, cluster.view().problem) == ((1,), "")


def test_dropped_profile_removes_its_waiting_pods_until_it_returns():
    cluster = FactCluster()
    cluster.nodes(node())
    cluster.pods(pod(schedulerName="second"), pod("b"), pod("c", ours=False))
    (event,) = cluster.told(cluster.watched.adopt({OURS: "kubernetes"}, cluster.now))
    assert (event.guest.name, event.guest.spec.policy, bool(event.guest.spec.unsupported)) == ("a", "", True)
    assert not cluster.view().is_ours
    profiles = {OURS: "kubernetes", "second": "best_fit", "default-scheduler": "kubernetes"}
    events = cluster.told(cluster.watched.adopt(profiles, cluster.now))
    assert [(event.guest.name, event.guest.spec.policy) for event in events] == [("a", "best_fit"), ("c", "kubernetes")]
    assert events[0].guest.spec.unsupported == ()


def test_room_that_was_kept_for_a_pod_before_our_time_is_reported_last():
    cluster = FactCluster(is_open=False)
    cluster.nodes(node())
    cluster.pods(pod(status={"phase": "Pending", "nominatedNodeName": "n1"}), pod("b"))
    assert kinds(cluster.open()) == ["HostsJoined", "GuestArrived", "GuestArrived", "GuestNominated"]
