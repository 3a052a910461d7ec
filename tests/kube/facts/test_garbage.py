"""No object, however malformed, makes the watched cluster raise, and the engine accepts every fact that follows."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.kube.api.resources import (
    BUDGETS,
    CRD_POD_GROUPS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from hostler.kube.facts.kinds import CSI_NODES, KINDS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from tests.kube.facts.cluster import FactCluster, named, node, pod
from tests.random_examples import count_examples

TERM = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
    "namespaces": ["x"],
    "matchLabelKeys": ["app"],
}
ON_NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
RICH = pod(
    labels={"app": "web"},
    annotations={
        "alibabacloud.com/gpu-milli": "500",
        "alibabacloud.com/gpu-index": "0",
        "priority": "1",
        "pod-group": "g",
        "pod-group-min": "2",
    },
    metadata={"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}]},
    status={
        "phase": "Pending",
        "startTime": "2026-01-01T00:00:00Z",
        "nominatedNodeName": "n1",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "r", "message": "m"}],
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}],
    },
    overhead={"memory": "1Mi"},
    initContainers=[{"name": "i", "resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"}],
    affinity={
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ON_NODES},
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": TERM}]
        },
    },
    topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ],
    tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    volumes=[
        {"name": "d", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "e", "ephemeral": {}},
        {"name": "f", "csi": {"driver": "x"}},
    ],
    schedulingGroup={"podGroupName": "g"},
    preemptionPolicy="Never",
    nodeSelector={"zone": "a"},
)
CLAIM = {
    "storageClassName": "fast",
    "accessModes": ["ReadWriteOncePod"],
    "resources": {"requests": {"storage": "1Gi"}},
    "selector": {"matchLabels": {"a": "b"}},
}
DISK = {
    "storageClassName": "fast",
    "accessModes": ["ReadWriteOncePod"],
    "capacity": {"storage": "2Gi"},
    "nodeAffinity": {"required": ON_NODES},
    "csi": {"driver": "x", "volumeHandle": "h"},
    "claimRef": {"namespace": "default", "name": "c"},
}
GROUP = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 3, "disruptionMode": {"all": {}}}
SELECTOR = {"selector": {"matchLabels": {"app": "web"}}}
OBJECTS: list[tuple[Any, Any]] = [
    (PODS, RICH),
    (NODES, node(labels={"zone": "a"}, allocatable={"alibabacloud.com/gpu-count": "2"})),
    (NAMESPACES, named("default", metadata={"labels": {"a": "b"}})),
    (PRIORITY_CLASSES, named("high", value=3, globalDefault=True)),
    (SERVICES, named("s", "default", spec={"selector": {"app": "web"}})),
    (REPLICA_SETS, named("rs", "default", spec=SELECTOR)),
    (STATEFUL_SETS, named("rs", "default", spec=SELECTOR)),
    (REPLICATION_CONTROLLERS, named("rs", "default", spec={"selector": {"app": "web"}})),
    (BUDGETS, named("b", "default", spec=SELECTOR, status={"disruptionsAllowed": 1, "disruptedPods": {"a": "t"}})),
    (POD_GROUPS, named("g", "default", spec=GROUP)),
    (CRD_POD_GROUPS, named("g", "default", spec={"minMember": 2})),
    (STORAGE_CLASSES, named("fast", provisioner="x", volumeBindingMode="WaitForFirstConsumer")),
    (VOLUMES, named("v", spec=DISK, status={"phase": "Available"})),
    (VOLUME_CLAIMS, named("c", "default", spec=CLAIM)),
    (CSI_NODES, named("n1", spec={"drivers": [{"name": "x", "allocatable": {"count": 3}}]})),
]
TEXTS = ["", "x", "²", "a/b c", "\x00", "9" * 50, "x" * 9999, "gang:g", "reservation:r", "n1", str(2**49), str(2**61)]
WORDS = ["1e30", "-5", "Always", "Never", "In", "Gt", "Block", "Succeeded", "2026-01-01T00:00:00Z"]
NUMBERS = [None, True, 0, -1, 3, 2**53, 2**62, 2**70, 0.5, 1e300]
PARTS = [[], [None], ["x"], [{}], {}, {"x": None}, {"": "x"}, {"x": "1"}, {"matchLabels": {"": ""}}]
JUNK = st.sampled_from([*TEXTS, *WORDS, *NUMBERS, *PARTS])


def places(value, path=()):
    """Return every place in a value where another value could be."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in entries:
        yield (*path, key)
        yield from places(part, (*path, key))


def spoil(value, path, junk):
    """Put another value at a path, if an earlier one has left the path intact."""
    with contextlib.suppress(LookupError, TypeError):
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = copy.deepcopy(junk)


def test_every_kind_that_is_watched_is_in_these_tests():
    assert {resource.path() for resource, _ in OBJECTS} == {kind.resource.path() for kind in KINDS}


@st.composite
def spoiled(draw):
    """Return one of the objects with up to three values replaced; and whether the pod runs."""
    resource, data = draw(st.sampled_from([*OBJECTS, *[OBJECTS[0]] * 5, *[OBJECTS[1]] * 2]))
    data = copy.deepcopy(data)
    if resource is PODS and draw(st.booleans()):
        data["spec"]["nodeName"] = draw(st.sampled_from(["n1", "n2"]))
    key = (data["metadata"].get("namespace", ""), data["metadata"]["name"])
    paths = [
        path for path in places(data) if path not in (("metadata",), ("metadata", "name"), ("metadata", "namespace"))
    ]
    for path in draw(st.lists(st.sampled_from(paths), max_size=3)):
        spoil(data, path, draw(JUNK))
    return resource, key, data


@settings(max_examples=count_examples(400), deadline=None)
@given(st.lists(spoiled(), min_size=1, max_size=6), st.booleans(), st.sampled_from([0, 3, 99]), st.booleans())
def test_no_object_makes_the_world_raise_or_the_engine_refuse_a_fact(objects, seeds, opened_after, is_first):
    cluster = FactCluster(is_open=False, seed_annotations=seeds)
    good = [(resource, data["metadata"], data) for resource, data in OBJECTS]
    feed = [(r, (m.get("namespace", ""), m["name"]), d) for r, m, d in good]
    feed = [*feed, *objects] if is_first else [*objects, *feed, *objects]
    for at, (resource, key, data) in enumerate(feed):
        if at == opened_after:
            cluster.open()
        cluster.put_at(resource, key, data)
    if opened_after >= len(feed):
        cluster.open()
    cluster.engine.step(cluster.now)
    cluster.told(cluster.watched.tick(cluster.now + 10**10))
    cluster.watched.counts()
    for resource, key, _ in feed:
        if (resource.path(), key) in cluster.objects:
            cluster.drop(resource, key[1], key[0])
    assert cluster.watched.pods == {}
    assert cluster.watched.problems() == {}
    assert cluster.engine.view.records == {}
    assert cluster.engine.view.gangs.known == {}
    assert cluster.engine.view.budgets == {}
    assert cluster.watched.hosts == {}


@pytest.mark.parametrize("size", [1_000_000])
def test_a_megabyte_of_annotations_hurts_nobody(size):
    cluster = FactCluster()
    (event,) = cluster.pods(pod(annotations={"blob": "x" * size}))
    assert event.guest.name == "a"
