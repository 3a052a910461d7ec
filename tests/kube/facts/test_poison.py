"""Invalid objects are left out and named, or counted as far as possible, without harm to others."""

from typing import Any

import pytest

from hostler.errors import InputError
from hostler.kube.api.resources import BUDGETS, NAMESPACES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, SERVICES
from hostler.kube.facts.bounds import MAX_TERMS_OF_POD, NameShares, check_spec, clip_spec
from hostler.model import Expression, GuestSpec, GuestTerm, HostLeft, Selector
from tests.kube.facts.cluster import FactCluster, kinds, named, node, pod

RUNS = {"nodeName": "n1"}
NONSENSE: Any = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}}
ODD = {"priority": "high"}  # does not even decode


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (NONSENSE, "needs at least one term"),
        ({"cpu": "1e30"}, "larger than 2^62"),
        ({"cpu": str(2**52)}, "more than any node may have"),
        ({"cpu": "much"}, "not a quantity"),
        ({"containers": []}, "spec.containers is missing"),
        (ODD, "Expected"),
        ({"schedulingGroup": {"podGroupName": "x" * 300}}, "longer than 253"),
    ],
    ids=["affinity", "beyond 64 bits", "absurd", "no quantity", "no containers", "does not decode", "long group"],
)
def test_a_poison_pod_that_waits_is_left_out_with_its_problem(fields, words):
    cluster = FactCluster()
    assert cluster.pods(pod(**fields)) == []
    assert words in cluster.view().problem
    assert words in cluster.watched.problems()["pod default/a"]
    assert (cluster.watched.counts().poison_pods, cluster.watched.counts().pending) == (1, 0)
    assert kinds(cluster.pods(pod("b"))) == ["GuestArrived"]
    assert kinds(cluster.pods(pod())) == ["GuestArrived"]
    assert cluster.watched.problems() == {}


def test_a_poison_pod_that_goes_takes_its_problem_along():
    cluster = FactCluster()
    cluster.pods(pod(**NONSENSE))
    cluster.drop(PODS, "a", "default")
    assert cluster.watched.problems() == {}
    assert cluster.watched.pods == {}


def test_a_poison_pod_that_runs_holds_what_it_asks_for():
    cluster = FactCluster()
    cluster.nodes(node())
    (event,) = cluster.pods(pod(cpu="2", **RUNS, **NONSENSE))
    assert (event.guest.host, event.guest.spec.requests) == ("n1", (("cpu", 2000),))
    assert "at least one term" in cluster.view().problem


def test_a_running_pod_with_amounts_that_nobody_can_read_counts_as_one_pod():
    cluster = FactCluster()
    (event,) = cluster.pods(pod(cpu="much", **RUNS))
    assert (event.guest.host, event.guest.spec.requests) == ("n1", ())


def test_a_running_pod_with_an_absurd_amount_is_counted_with_less():
    cluster = FactCluster()
    cluster.nodes(node())
    (event,) = cluster.pods(pod(cpu=str(2**51), **RUNS))
    assert event.guest.spec.requests == (("cpu", 2**50),)
    assert "implausible" in cluster.view().problem


def test_a_running_pod_that_no_longer_decodes_keeps_what_it_held():
    cluster = FactCluster()
    cluster.pods(pod(**RUNS))
    assert cluster.pods(pod(**RUNS, **ODD)) == []
    assert "Expected" in cluster.view().problem
    assert kinds(cluster.drop(PODS, "a", "default")) == ["GuestLeft"]


@pytest.mark.parametrize("fields", [NONSENSE, ODD], ids=["makes no sense", "does not decode"])
def test_waiting_pod_that_becomes_invalid_is_rejected_until_valid_again(fields):
    cluster = FactCluster()
    cluster.nodes(node())
    cluster.pods(pod())
    (event,) = cluster.pods(pod(**fields))
    assert event.guest.spec.unsupported == (cluster.view().problem,)
    assert kinds(cluster.engine.step(cluster.now)) == ["Defer"]
    (event,) = cluster.pods(pod())
    assert event.guest.spec.unsupported == ()
    assert kinds(cluster.engine.step(cluster.now)) == ["Bind"]


@pytest.mark.parametrize("uid", ["gang:default/g", "reservation:r"])
def test_a_uid_that_the_engine_keeps_for_itself_gets_another_name_there(uid):
    cluster = FactCluster()
    (event,) = cluster.pods(pod(uid=uid))
    assert event.guest.uid == f"pod:{uid}"
    assert cluster.watched.pods[event.guest.uid].uid == uid


def test_of_two_pods_with_one_uid_the_second_is_left_out():
    cluster = FactCluster()
    cluster.pods(pod("a", uid="same"))
    assert cluster.pods(pod("b", uid="same")) == []
    assert cluster.watched.problems() == {"pod default/b": "it has the uid of pod default/a, and is left out"}
    assert cluster.drop(PODS, "b", "default") == []
    assert cluster.watched.problems() == {}
    assert list(cluster.watched.pods) == ["same"]


def asking(name, *resources, namespace="default", **fields):
    requests = {"requests": dict.fromkeys(resources, "1")}
    return pod(name, namespace=namespace, containers=[{"name": "c", "resources": requests}], **fields)


def test_pods_with_invented_resources_do_not_use_up_node_names():
    cluster = FactCluster()
    for at in range(1200):
        cluster.pods(asking(f"p{at}", f"example.com/r{at}"))
    assert "256 are allowed" in cluster.view("p1199").problem
    (event,) = cluster.nodes(node(allocatable={"nvidia.com/gpu": "4"}))
    assert ("nvidia.com/gpu", 4) in event.host.capacity
    (event,) = cluster.pods(asking("runs", "x/y", "cpu", nodeName="n1"))
    assert event.guest.spec.requests == (("cpu", 1000), ("x/y", 1)), "what runs is counted"


def test_namespace_with_invented_resources_blocks_no_other_namespace():
    """Pods of one namespace name 1,200 resources; a pod of another namespace is still told to the engine."""
    cluster = FactCluster()
    for at in range(1200):
        cluster.pods(asking(f"p{at}", f"example.com/r{at}", namespace="greedy"))
    (event,) = cluster.pods(asking("p", "example.com/licenses", namespace="honest"))
    assert event.guest.spec.requests == (("example.com/licenses", 1),)
    assert "pod honest/p" not in cluster.watched.problems()


def test_names_of_a_pod_are_released_when_it_goes():
    """A namespace at its share gets one more pod as soon as another one leaves; pods may churn without end."""
    cluster = FactCluster()
    for at in range(256):
        cluster.pods(asking(f"p{at}", f"example.com/r{at}"))
    assert cluster.pods(asking("late", "example.com/late")) == []
    assert "namespace default" in cluster.watched.problems()["pod default/late"]
    events = cluster.drop(PODS, "p7", "default")
    assert kinds(events) == ["GuestLeft", "GuestArrived"]
    assert cluster.watched.problems() == {}
    for at in range(1000):
        cluster.drop(PODS, "late", "default")
        assert kinds(cluster.pods(asking("late", f"example.com/c{at}", uid=f"u{at}"))) == ["GuestArrived"]


def test_pod_that_keeps_its_names_lets_no_rejected_pod_be_tried_again():
    """Each try converts a pod: many rejected ones and one that changes often would cost all of them each time."""
    names = NameShares()
    for at in range(256):
        check_spec(GuestSpec(requests=((f"example.com/r{at}", 1),)), names, f"kept-{at}")
    with pytest.raises(InputError, match="256 are allowed"):
        check_spec(GuestSpec(requests=(("example.com/more", 1),)), names, "late")
    changed = GuestSpec(requests=(("example.com/r0", 2),))
    check_spec(changed, names, "kept-0")
    clip_spec(changed, names, "kept-0")
    assert names.late_pods() == []
    check_spec(GuestSpec(), names, "kept-0")
    assert names.late_pods() == ["late"]


def test_pod_with_too_many_names_is_rejected_with_the_number():
    cluster = FactCluster()
    assert cluster.pods(asking("p", *(f"example.com/r{at}" for at in range(65)))) == []
    assert "it names 65 resources" in cluster.watched.problems()["pod default/p"]


def test_node_with_invented_resources_blocks_no_other_node():
    """A node has its own share of names; beyond it that node alone is left out, until it has fewer."""
    cluster = FactCluster()
    assert cluster.nodes(node("rogue", allocatable={f"example.com/r{at}": "1" for at in range(33)})) == []
    assert "no other node has" in cluster.watched.problems()["node rogue"]
    for at in range(2000):
        cluster.nodes(node("rogue", allocatable={f"example.com/{at}.{k}": "1" for k in range(32)}))
    assert cluster.watched.problems() == {}
    (event,) = cluster.nodes(node("n1", allocatable={"nvidia.com/gpu": "4"}))
    assert ("nvidia.com/gpu", 4) in event.host.capacity


def test_node_that_found_no_names_left_joins_when_others_go():
    cluster = FactCluster()
    for at in range(31):
        cluster.nodes(node(f"n{at}", allocatable={f"example.com/{at}.{k}": "1" for k in range(32)}))
    assert list(cluster.watched.problems()) == ["node n30"]
    events = cluster.drop(NODES, "n3")
    assert kinds(events) == ["HostLeft", "HostJoined"]
    assert cluster.watched.problems() == {}


def crowd(cluster, *, prefix="rogue", created="2026-02-01T00:00:00Z"):
    """Let nodes use up all names but one."""
    for at in range(31):
        names = 31 if at == 30 else 32  # one name is n1's, and the thirtieth finds no room
        rogue = node(f"{prefix}-{at:02}", allocatable={f"example.com/{at}.{k}": "1" for k in range(names)})
        rogue["metadata"]["creationTimestamp"] = created
        cluster.nodes(rogue)


def test_known_node_stays_if_others_use_up_all_names():
    """A device plugin brings a new name while there is no room for it: the node keeps what it had until there is."""
    cluster = FactCluster()
    cluster.nodes(node("n1", allocatable={"nvidia.com/gpu": "4"}))
    crowd(cluster)
    assert list(cluster.watched.problems()) == ["node rogue-29"]
    (event,) = cluster.nodes(node("n1", cpu="6", allocatable={"nvidia.com/gpu": "3", "example.com/new": "1"}))
    assert (event.host.capacity[0], ("nvidia.com/gpu", 3) in event.host.capacity) == (("cpu", 6000), True)
    assert "example.com/new" not in dict(event.host.capacity)
    assert "example.com/new is not counted" in cluster.watched.problems()["node n1"]
    events = cluster.drop(NODES, "rogue-03")
    changed = {event.host.name: dict(event.host.capacity) for event in events if not isinstance(event, HostLeft)}
    assert changed["n1"]["example.com/new"] == 1
    assert "node n1" not in cluster.watched.problems()


def test_older_nodes_keep_their_names_after_a_restart():
    """A restart lists nodes by name; those of an attacker who came later come first there."""
    cluster = FactCluster(is_open=False)
    crowd(cluster, prefix="a-rogue")
    old = node("n1", allocatable={"nvidia.com/gpu": "4"})
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.nodes(old)
    (event,) = cluster.open()
    assert ("nvidia.com/gpu", 4) in next(host.capacity for host in event.hosts if host.name == "n1")
    assert list(cluster.watched.problems()) == ["node a-rogue-29"]


def test_what_is_only_scored_by_is_cut_in_silence():
    cluster = FactCluster()
    containers = [{"name": "c", "resources": {"requests": {"memory": str(2**45)}}}, {"name": "d"}]
    (event,) = cluster.pods(pod(containers=containers))
    assert dict(event.guest.spec.scored_requests)["memory"] == 2**44
    assert cluster.view().problem == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cpu": "1e30"}, "larger than 2^62"),
        ({"cpu": str(2**47)}, "implausible"),
        ({"spec": {"taints": [{"key": "k", "effect": "Never"}]}}, "not an effect"),
        ({"spec": {"taints": 3}}, "Expected"),
    ],
    ids=["beyond 64 bits", "absurd", "effect", "does not decode"],
)
def test_a_node_that_makes_no_sense_leaves_until_it_does(fields, words):
    cluster = FactCluster()
    cluster.nodes(node())
    assert kinds(cluster.nodes(node(**fields))) == ["HostLeft"]
    assert words in cluster.watched.problems()["node n1"]
    assert cluster.nodes(node(**fields)) == []
    assert kinds(cluster.nodes(node())) == ["HostJoined"]
    assert cluster.watched.problems() == {}


def test_a_poison_node_that_goes_takes_its_problem_along():
    cluster = FactCluster()
    assert cluster.nodes(node(cpu="much")) == []
    assert cluster.drop(NODES, "n1") == []
    assert cluster.watched.problems() == {}


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
    cluster = FactCluster()
    assert cluster.put(resource, data) == []
    assert list(cluster.watched.problems()) == [place]
    assert cluster.watched.counts().poison == 1
    cluster.drop(resource, "x", data["metadata"].get("namespace", ""))
    assert cluster.watched.problems() == {}


def spec_with_terms(count: int) -> GuestSpec:
    chosen = (Selector((Expression("app", "In", (f"x{n}",)),)) for n in range(count))
    return GuestSpec(anti_affinity=tuple(GuestTerm(topology="zone", selector=one) for one in chosen))


def test_pending_pod_with_too_many_terms_is_rejected():
    """6,000 terms were converted without a cap."""
    assert check_spec(spec_with_terms(MAX_TERMS_OF_POD), NameShares()).term_count == MAX_TERMS_OF_POD
    with pytest.raises(InputError, match="6000 affinity terms"):
        check_spec(spec_with_terms(6000), NameShares())


def test_running_pod_with_too_many_terms_is_counted_with_fewer():
    spec, problem = clip_spec(spec_with_terms(6000), NameShares())
    assert spec.term_count == MAX_TERMS_OF_POD
    assert "only 128 are counted" in problem
