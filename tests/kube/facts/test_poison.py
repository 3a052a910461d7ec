"""Objects that make no sense: left out and named, or counted as far as they can be; nobody else suffers."""

from typing import Any

import pytest

from hostler.kube.api.resources import BUDGETS, NAMESPACES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, SERVICES
from tests.kube.facts.cluster import Cluster, kinds, named, node, pod

RUNS = {"nodeName": "n1"}
NONSENSE: Any = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}
ODD = {"priority": "high"}  # does not even decode


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (NONSENSE, "needs at least one term"),
        ({"cpu": "1e30"}, "larger than 2^62"),
        ({"cpu": str(2**52)}, "more than any node has"),
        ({"cpu": "much"}, "not a quantity"),
        ({"containers": []}, "spec.containers is missing"),
        (ODD, "Expected"),
        ({"schedulingGroup": {"podGroupName": "x" * 300}}, "longer than 253"),
    ],
    ids=["affinity", "beyond 64 bits", "absurd", "no quantity", "no containers", "does not decode", "long group"],
)
def test_a_poison_pod_that_waits_is_left_out_with_its_problem(fields, words):
    cluster = Cluster()
    assert cluster.pods(pod(**fields)) == []
    assert words in cluster.view().problem
    assert words in cluster.world.problems()["pod default/a"]
    assert (cluster.world.counts().poison_pods, cluster.world.counts().pending) == (1, 0)
    assert kinds(cluster.pods(pod("b"))) == ["GuestArrived"]
    assert kinds(cluster.pods(pod())) == ["GuestArrived"]
    assert cluster.world.problems() == {}


def test_a_poison_pod_that_goes_takes_its_problem_along():
    cluster = Cluster()
    cluster.pods(pod(**NONSENSE))
    cluster.drop(PODS, "a", "default")
    assert cluster.world.problems() == {}
    assert cluster.world.pods == {}


def test_a_poison_pod_that_runs_holds_what_it_asks_for():
    cluster = Cluster()
    cluster.nodes(node())
    (event,) = cluster.pods(pod(cpu="2", **RUNS, **NONSENSE))
    assert (event.guest.host, event.guest.spec.requests) == ("n1", (("cpu", 2000),))
    assert "at least one term" in cluster.view().problem


def test_a_running_pod_with_amounts_that_nobody_can_read_counts_as_one_pod():
    cluster = Cluster()
    (event,) = cluster.pods(pod(cpu="much", **RUNS))
    assert (event.guest.host, event.guest.spec.requests) == ("n1", ())


def test_a_running_pod_with_an_absurd_amount_is_counted_with_less():
    cluster = Cluster()
    cluster.nodes(node())
    (event,) = cluster.pods(pod(cpu=str(2**51), **RUNS))
    assert event.guest.spec.requests == (("cpu", 2**50),)
    assert "absurd" in cluster.view().problem


def test_a_running_pod_that_no_longer_decodes_keeps_what_it_held():
    cluster = Cluster()
    cluster.pods(pod(**RUNS))
    assert cluster.pods(pod(**RUNS, **ODD)) == []
    assert "Expected" in cluster.view().problem
    assert kinds(cluster.drop(PODS, "a", "default")) == ["GuestLeft"]


@pytest.mark.parametrize("fields", [NONSENSE, ODD], ids=["makes no sense", "does not decode"])
def test_a_waiting_pod_that_turns_into_nonsense_is_refused_everywhere_until_it_makes_sense_again(fields):
    cluster = Cluster()
    cluster.nodes(node())
    cluster.pods(pod())
    (event,) = cluster.pods(pod(**fields))
    assert event.guest.spec.unsupported == (cluster.view().problem,)
    assert kinds(cluster.engine.step(cluster.now)) == ["Hold"]
    (event,) = cluster.pods(pod())
    assert event.guest.spec.unsupported == ()
    assert kinds(cluster.engine.step(cluster.now)) == ["Bind"]


@pytest.mark.parametrize("uid", ["gang:default/g", "reservation:r"])
def test_a_uid_that_the_engine_keeps_for_itself_gets_another_name_there(uid):
    cluster = Cluster()
    (event,) = cluster.pods(pod(uid=uid))
    assert event.guest.uid == f"pod:{uid}"
    assert cluster.world.pods[event.guest.uid].uid == uid


def test_of_two_pods_with_one_uid_the_second_is_left_out():
    cluster = Cluster()
    cluster.pods(pod("a", uid="same"))
    assert cluster.pods(pod("b", uid="same")) == []
    assert cluster.world.problems() == {"pod default/b": "it has the uid of pod default/a, and is left out"}
    assert cluster.drop(PODS, "b", "default") == []
    assert cluster.world.problems() == {}
    assert list(cluster.world.pods) == ["same"]


def test_pods_with_invented_resources_do_not_use_up_the_names_that_nodes_need():
    cluster = Cluster()
    for at in range(1200):
        resources = {"requests": {f"example.com/r{at}": "1"}}
        cluster.pods(pod(f"p{at}", containers=[{"name": "c", "resources": resources}]))
    assert "too many already" in cluster.view("p1199").problem
    (event,) = cluster.nodes(node(allocatable={"nvidia.com/gpu": "4"}))
    assert ("nvidia.com/gpu", 4) in event.host.capacity
    (event,) = cluster.pods(
        pod("runs", nodeName="n1", containers=[{"name": "c", "resources": {"requests": {"x/y": "1", "cpu": "1"}}}])
    )
    assert event.guest.spec.requests == (("cpu", 1000),)


def test_what_is_only_scored_by_is_cut_in_silence():
    cluster = Cluster()
    containers = [{"name": "c", "resources": {"requests": {"memory": str(2**45)}}}, {"name": "d"}]
    (event,) = cluster.pods(pod(containers=containers))
    assert dict(event.guest.spec.scored_requests)["memory"] == 2**44
    assert cluster.view().problem == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cpu": "1e30"}, "larger than 2^62"),
        ({"cpu": str(2**47)}, "absurd"),
        ({"spec": {"taints": [{"key": "k", "effect": "Never"}]}}, "not an effect"),
        ({"spec": {"taints": 3}}, "Expected"),
    ],
    ids=["beyond 64 bits", "absurd", "effect", "does not decode"],
)
def test_a_node_that_makes_no_sense_leaves_until_it_does(fields, words):
    cluster = Cluster()
    cluster.nodes(node())
    assert kinds(cluster.nodes(node(**fields))) == ["HostLeft"]
    assert words in cluster.world.problems()["node n1"]
    assert cluster.nodes(node(**fields)) == []
    assert kinds(cluster.nodes(node())) == ["HostJoined"]
    assert cluster.world.problems() == {}


def test_a_poison_node_that_goes_takes_its_problem_along():
    cluster = Cluster()
    assert cluster.nodes(node(cpu="much")) == []
    assert cluster.drop(NODES, "n1") == []
    assert cluster.world.problems() == {}


@pytest.mark.parametrize(
    ("resource", "data", "place"),
    [
        (NAMESPACES, named("x", metadata={"labels": 3}), "Namespace x"),
        (SERVICES, named("x", "default", spec={"selector": 3}), "Service default/x"),
        (PRIORITY_CLASSES, named("x", value=2**40), "PriorityClass x"),
        (BUDGETS, named("x", "default", status={"disruptionsAllowed": -1}), "PodDisruptionBudget default/x"),
        (POD_GROUPS, named("x", "default", spec={}), "PodGroup.scheduling.k8s.io default/x"),
    ],
    ids=["namespace", "service", "priority class", "budget", "group"],
)
def test_other_poison_objects_are_named_and_left_out(resource, data, place):
    cluster = Cluster()
    assert cluster.put(resource, data) == []
    assert list(cluster.world.problems()) == [place]
    assert cluster.world.counts().poison == 1
    cluster.drop(resource, "x", data["metadata"].get("namespace", ""))
    assert cluster.world.problems() == {}
