"""Who counts as a pod's sibling: services that select it and its controller, as kube-scheduler has it by default."""

import pytest

from hostler.errors import InputError
from hostler.manifests import Surroundings, read_manifests
from hostler.manifests.objects.metadata import Metadata
from hostler.manifests.objects.policies import Service, ServiceSpec
from hostler.manifests.selectors import select_labels
from hostler.model import Expression, Selector
from tests.manifests.samples import owned_by, pod, template, thing

APP = Expression("app", "In", ("web",))
TIER = Expression("tier", "In", ("front",))
HASH = Expression("pod-template-hash", "In", ("h1",))
LABELS = {"app": "web", "tier": "front", "pod-template-hash": "h1"}


def service(name, selector, namespace="shop"):
    return thing("Service", name, namespace=namespace, spec={"selector": selector})


def web(**metadata):
    return pod("a", metadata={"namespace": "shop", "labels": LABELS, **metadata})


def replica_set(name="rs", selector=None, **fields):
    chosen = {"matchLabels": {"pod-template-hash": "h1"}} if selector is None else selector
    spec = {"replicas": 0, "selector": chosen, "template": template(LABELS)}
    return thing("ReplicaSet", name, version="apps/v1", namespace="shop", spec=spec, **fields)


def stateful_set(name="db", selector=None):
    chosen = {"matchExpressions": [{"key": "app", "operator": "Exists"}]} if selector is None else selector
    spec = {"replicas": 0, "selector": chosen, "template": template(LABELS)}
    return thing("StatefulSet", name, version="apps/v1", namespace="shop", spec=spec)


def controller(name="rc", selector=None):
    spec = {"replicas": 0, "template": template({"app": "web"}), "selector": selector}
    return thing("ReplicationController", name, namespace="shop", spec=spec)


CASES = {
    "nothing around": ([web()], None),
    "a service that selects it": ([web(), service("s", {"app": "web"})], Selector((APP,))),
    "a service that selects others": ([web(), service("s", {"app": "db"})], None),
    "a service of another namespace": ([web(), service("s", {"app": "web"}, "other")], None),
    "a service without a selector": ([web(), service("s", None)], None),
    "a service that selects everything": ([web(), service("s", {})], None),
    "two services together": (
        [service("t", {"tier": "front"}), web(), service("s", {"app": "web"})],
        Selector((APP, TIER)),
    ),
    "its ReplicaSet": ([web(**owned_by("ReplicaSet", "rs")), replica_set()], Selector((HASH,))),
    "its ReplicaSet and a service": (
        [web(**owned_by("ReplicaSet", "rs")), replica_set(), service("s", {"app": "web"})],
        Selector((APP, HASH)),
    ),
    "what both say counts once": (
        [web(**owned_by("ReplicaSet", "rs")), replica_set(), service("s", {"app": "web", "pod-template-hash": "h1"})],
        Selector((APP, HASH)),
    ),
    "its StatefulSet": ([stateful_set(), web(**owned_by("StatefulSet", "db"))], Selector((Expression("app"),))),
    "its ReplicationController": (
        [controller(selector={"tier": "front"}), web(**owned_by("ReplicationController", "rc"))],
        Selector((TIER,)),
    ),
    "a ReplicationController that goes by its template": (
        [controller(), web(**owned_by("ReplicationController", "rc"))],
        Selector((APP,)),
    ),
    "a ReplicaSet that is not in the input": ([web(**owned_by("ReplicaSet", "gone"))], None),
    "an owner that does not control it": ([web(**owned_by("ReplicaSet", "rs", controller=False)), replica_set()], None),
    "an owner of another kind": ([web(**owned_by("Rollout", "rs")), replica_set()], None),
    "a ReplicaSet without a selector": (
        [
            web(**owned_by("ReplicaSet", "rs")),
            thing(
                "ReplicaSet", "rs", version="apps/v1", namespace="shop", spec={"replicas": 0, "template": template()}
            ),
        ],
        None,
    ),
}


@pytest.mark.parametrize(("objects", "expected"), CASES.values(), ids=CASES.keys())
def test_siblings_are_given_by(objects, expected):
    found = read_manifests(objects)
    (guest,) = [guest for guest in found.guests if guest.name == "a"]
    assert guest.spec.siblings == expected


def test_pods_of_a_deployment_are_siblings_by_selector_and_services():
    deployment = thing(
        "Deployment",
        "web",
        version="apps/v1",
        namespace="shop",
        spec={"replicas": 2, "selector": {"matchLabels": {"tier": "front"}}, "template": template(LABELS)},
    )
    found = read_manifests([service("s", {"app": "web"}), deployment])
    assert [guest.spec.siblings for guest in found.guests] == [Selector((APP, TIER))] * 2


@pytest.mark.parametrize("kind", ["Job", "DaemonSet"])
def test_other_workloads_make_no_siblings(kind):
    version = "batch/v1" if kind == "Job" else "apps/v1"
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template({"app": "web"})}
    node = thing("Node", "n1", status={"allocatable": {"pods": "9"}})
    found = read_manifests([node, thing(kind, "x", version=version, spec=spec)])
    assert [guest.spec.siblings for guest in found.guests] == [None]


def test_a_service_that_comes_later_counts_from_then_on():
    around = Surroundings()
    labels = (("app", "web"),)
    assert around.siblings("default", labels, None) is None
    around.add_service(Service(spec=ServiceSpec(selector={"app": "web"})))
    assert around.siblings("default", labels, None) == Selector((APP,))


BROKEN = {
    "a service's selector that is a number": (
        service("s", {"app": 7}),
        "Service shop/s: spec.selector.app: expected str, got int",
    ),
    "a service's selector without a value": (
        service("s", {"app": None}),
        "Service shop/s: spec.selector.app: expected str, got null",
    ),
    "a service's selector of the newer form": (
        service("s", {"matchLabels": {"app": "web"}}),
        "Service shop/s: spec.selector.matchLabels: expected str, got object",
    ),
    "a service without a name": (service("", {}), "Service: metadata.name is missing"),
    "an unknown operator of a ReplicaSet": (
        replica_set(selector={"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]}),
        "ReplicaSet shop/rs: spec.selector.matchExpressions[0].operator: 'Like' is not an operator",
    ),
    "a ReplicationController's selector that is a list": (
        controller(selector=["a"]),
        "ReplicationController shop/rc: spec.selector: expected object | null, got array",
    ),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_malformed_selector_is_refused_with_name_and_path(data, message):
    with pytest.raises(InputError) as caught:
        read_manifests([data])
    assert caught.value.message == message


def deployment(labels, replicas=2):
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(labels)}
    return thing("Deployment", "web", version="apps/v1", namespace="shop", spec=spec)


def test_pods_of_a_deployment_are_those_of_its_current_replica_set():
    labels = {"app": "web", "tier": "front"}
    made = replica_set("web-h1", metadata=owned_by("Deployment", "web"))
    running = web(**owned_by("ReplicaSet", "web-h1"))
    found = read_manifests([deployment(labels), made, running]).guests
    assert len(found) == 2
    assert len({(guest.spec.labels, guest.spec.siblings) for guest in found}) == 1
    assert found[0].spec.siblings == Selector((HASH,))


def test_pods_of_a_new_template_are_of_no_replica_set_that_is_there():
    made = replica_set("web-h1", metadata=owned_by("Deployment", "web"))
    found = read_manifests([deployment({"app": "web"}), made]).guests
    assert {guest.spec.siblings for guest in found} == {Selector((APP,))}


def test_services_and_controllers_of_a_live_cluster_change_and_go():
    around = Surroundings()
    around.add_service(Service(metadata=Metadata(name="s"), spec=ServiceSpec(selector={"app": "web"})))
    assert around.siblings("default", (("app", "web"),), None) == select_labels({"app": "web"})
    around.add_service(Service(metadata=Metadata(name="s"), spec=ServiceSpec(selector={"tier": "front"})))
    assert around.siblings("default", (("app", "web"),), None) is None
    assert around.siblings("default", (("tier", "front"),), None) == select_labels({"tier": "front"})
    around.remove_service("default", "s")
    assert around.siblings("default", (("tier", "front"),), None) is None
    around.add_controller("ReplicaSet", Metadata(name="rs"), select_labels({"a": "b"}))
    assert around.selector_named("default", "ReplicaSet", "rs") == select_labels({"a": "b"})
    around.remove_controller("default", "ReplicaSet", "rs")
    assert around.selector_named("default", "ReplicaSet", "rs") is None
