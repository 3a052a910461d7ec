"""Pods of DaemonSets: one for each node that would take it."""

import pytest

from hostler.errors import InputError
from hostler.manifests import read_manifests
from hostler.model import Expression, Host, Taint, Term
from tests.manifests.samples import node, owned_by, pod, template, thing

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def daemons(name="log", **spec):
    return thing(
        "DaemonSet", name, version="apps/v1", namespace="ops", spec={"template": template({"app": "log"}, **spec)}
    )


def mine(name, **fields):
    metadata = {"namespace": "ops", **owned_by("DaemonSet", "log")}
    return pod(name, metadata={**metadata, **fields.pop("metadata", {})}, **fields)


def on_name(name):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def made(*objects, **options):
    """The nodes that a daemon was made for."""
    guests = read_manifests(objects, **options).guests
    return [guest.spec.host_affinity[0].names[0].values[0] for guest in guests if guest.name.startswith("log-")]


def test_each_node_gets_one_bound_to_it_by_name():
    first, second = read_manifests([daemons(), node("n1"), node("n2")]).guests
    assert (first.name, second.name) == ("log-n1", "log-n2")
    assert first.uid == "ops/log-n1"
    assert first.host == ""
    assert first.spec.host_affinity == (Term((), (Expression("metadata.name", "In", ("n1",)),)),)


def test_without_nodes_there_are_no_daemons():
    assert read_manifests([daemons()]).guests == ()


def test_hosts_from_elsewhere_get_daemons_too():
    assert made(daemons(), node("n1"), more_hosts=[Host(name="vm-host")]) == ["n1", "vm-host"]


ELIGIBLE = {
    "a label that the selector wants": (
        {"nodeSelector": {"disk": "ssd"}},
        [
            node("n1"),
            node("n2", metadata={"labels": {"disk": "ssd"}}),
            node("n3", metadata={"labels": {"disk": "hdd"}}),
        ],
        ["n2"],
    ),
    "an affinity that matches": (
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["4"]}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]},
                        ]
                    }
                }
            }
        },
        [node("n1", metadata={"labels": {"gen": "5"}}), node("n2"), node("n3")],
        ["n1", "n3"],
    ),
    "no hard taint": (
        {},
        [
            node("n1", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
            node("n2", spec={"taints": [{"key": "a", "effect": "NoExecute"}]}),
            node("n3", spec={"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}),
        ],
        ["n3"],
    ),
    "taints that it tolerates": (
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        [
            node("n1", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
            node("n2", spec={"taints": [{"key": "b", "effect": "NoSchedule"}]}),
        ],
        ["n1"],
    ),
    "changes of a node and a cordon": (
        {},
        [
            node("n1", spec={"unschedulable": True}),
            node("n2", spec={"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}),
            node("n3", spec={"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}),
            node("n4", spec={"taints": [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]}),
        ],
        ["n1", "n2", "n3"],
    ),
    "no network, when it uses the node's own": (
        {"hostNetwork": True},
        [node("n1", spec={"taints": [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]})],
        ["n1"],
    ),
}


@pytest.mark.parametrize(("fields", "nodes", "expected"), ELIGIBLE.values(), ids=ELIGIBLE.keys())
def test_a_node_gets_a_daemon_by(fields, nodes, expected):
    assert made(daemons(**fields), *nodes) == expected


def test_room_does_not_matter():
    full = node("n1", allocatable={"pods": "0"})
    assert made(full, daemons()) == ["n1"]


def test_daemon_tolerates_node_taints_beside_its_own():
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    (guest,) = read_manifests([node("n1"), daemons(tolerations=[own, {"key": "x", "operator": "Exists"}])]).guests
    keys = [(item.key.removeprefix("node.kubernetes.io/"), item.effect) for item in guest.spec.tolerations]
    assert keys == [
        ("not-ready", "NoExecute"),
        ("x", ""),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ]
    assert all(item.operator == "Exists" for item in guest.spec.tolerations)
    assert any(item.tolerates(Taint("node.kubernetes.io/unschedulable")) for item in guest.spec.tolerations)


PRESENT = {
    "runs there": ([mine("p", nodeName="n1")], ["n2"]),
    "waits for it": ([mine("p", affinity=on_name("n1"))], ["n2"]),
    "is going away": ([mine("p", nodeName="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], ["n2"]),
    "ended there": ([mine("p", nodeName="n1", status={"phase": "Failed"})], ["n1", "n2"]),
    "has another owner": (
        [pod("p", metadata={"namespace": "ops", **owned_by("DaemonSet", "other")}, nodeName="n1")],
        ["n1", "n2"],
    ),
}


@pytest.mark.parametrize(("pods", "expected"), PRESENT.values(), ids=PRESENT.keys())
def test_a_node_gets_none_where_one(pods, expected):
    assert made(node("n1"), node("n2"), daemons(), *pods) == expected


def test_a_template_that_names_a_node_is_for_that_node_only():
    (guest,) = read_manifests([node("n1"), node("n2"), daemons(nodeName="n2")]).guests
    assert (guest.name, guest.host) == ("log-n2", "n2")


def test_names_that_are_taken_get_a_number():
    objects = [pod("log-n1", metadata={"namespace": "ops"}), node("n1"), daemons()]
    assert [guest.name for guest in read_manifests(objects).guests] == ["log-n1", "log-n1-0"]


BROKEN = {
    "a wrong toleration": (
        daemons(tolerations=[{"value": "x"}]),
        "DaemonSet ops/log: spec.template.spec.tolerations[0]: a toleration without a key needs operator Exists",
    ),
    "no containers": (
        thing("DaemonSet", "log", version="apps/v1", namespace="ops", spec={}),
        "DaemonSet ops/log: spec.template.spec.containers is missing",
    ),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_malformed_daemon_set_is_refused_with_name_and_path(data, message):
    with pytest.raises(InputError) as caught:
        read_manifests([data])
    assert caught.value.message == message
