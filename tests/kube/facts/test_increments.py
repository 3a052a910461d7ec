"""Incremental and initial conversion agree: after any history the engine equals one that starts with the last state."""

import copy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.kube.api.resources import BUDGETS, NAMESPACES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, SERVICES
from hostler.kube.facts.kinds import CSI_NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from tests.kube.facts.cluster import FactCluster, named, node, pod
from tests.random_examples import count_examples

NONSENSE: Any = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
ZONE = "topology.kubernetes.io/zone"
GPU = {"alibabacloud.com/gpu-milli": "500", "alibabacloud.com/gpu-index": "1"}
FREE = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}


def group_data(draw):
    spec = {"schedulingPolicy": {"gang": {"minCount": draw(st.integers(1, 3))}}}
    return named("g", "default", spec={**spec, **draw(st.sampled_from([{}, {"priority": 1}, {"priority": 2}]))})


def claim_data(draw, name):
    spec = draw(
        st.sampled_from(
            [
                {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]},
                {"storageClassName": "fast"},
                {"storageClassName": "fast", "volumeName": "v1"},
                {"volumeName": "v2"},
            ]
        )
    )
    return named(name, "default", spec=spec, metadata=BOUND if "volumeName" in spec else {})


def volume_data(draw, name):
    labels = draw(st.sampled_from([{}, {ZONE: "a"}]))
    more = draw(st.sampled_from([{}, {"csi": {"driver": "x", "volumeHandle": name}}, {"claimRef": {"uid": "u"}}]))
    return named(name, metadata={"labels": labels}, spec={**FREE, **more})


def thing(draw):
    """Return an object other than a pod: its resource and its data."""
    kind = draw(st.sampled_from([NODES, NODES, NODES, POD_GROUPS, BUDGETS, NAMESPACES, SERVICES, PRIORITY_CLASSES,
                                 STORAGE_CLASSES, VOLUMES, VOLUME_CLAIMS, CSI_NODES]))  # fmt: skip
    name = draw(st.sampled_from(["n1", "n2"]))
    match kind.kind:
        case "Node":
            gpus = draw(st.sampled_from(["0", "1", "2"]))
            size = draw(st.sampled_from(["4", "8", "much"]))
            return kind, node(name, cpu=size, allocatable={"alibabacloud.com/gpu-count": gpus})
        case "PodGroup":
            return kind, group_data(draw)
        case "PodDisruptionBudget":
            return kind, named(
                "b", "default", spec={"selector": {}}, status={"disruptionsAllowed": draw(st.integers(0, 2))}
            )
        case "Namespace":
            return kind, named("default", metadata={"labels": {"x": draw(st.sampled_from("ab"))}})
        case "Service":
            return kind, named("s", "default", spec={"selector": {"app": draw(st.sampled_from(["web", "db"]))}})
        case "PriorityClass":
            return kind, named("high", value=draw(st.integers(1, 2)))
        case "StorageClass":
            chosen = draw(st.sampled_from([("local", "kubernetes.io/no-provisioner"), ("fast", "x")]))
            return kind, named(chosen[0], provisioner=chosen[1], volumeBindingMode="WaitForFirstConsumer")
        case "PersistentVolume":
            return kind, volume_data(draw, draw(st.sampled_from(["v1", "v2"])))
        case "PersistentVolumeClaim":
            return kind, claim_data(draw, draw(st.sampled_from(["c1", "c2"])))
        case _:
            drivers = [{"name": draw(st.sampled_from("xy")), "allocatable": {"count": draw(st.integers(0, 2))}}]
            return kind, named(name, spec={"drivers": drivers})


def new_pod(draw, name, uid):
    fields = draw(
        st.sampled_from(
            [
                {},
                {"priority": None, "priorityClassName": "high"},
                {"schedulingGroup": {"podGroupName": "g"}, "priority": 1},
                {"schedulingGates": [{"name": "x"}]},
                {"ours": False},
                {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c1"}}]},
                {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c2"}}]},
                {"annotations": GPU},
            ]
        )
    )
    labels = draw(st.sampled_from([{}, {"app": "web"}]))
    return pod(name, uid=uid, labels=labels, cpu=draw(st.sampled_from(["1", "2"])), **fields)


def next_step(draw, data):
    """Return a next state of a pod that an API server would allow: nodes and endings are final."""
    data = copy.deepcopy(data)
    spec, status, metadata = data["spec"], data["status"], data["metadata"]
    if status["phase"] == "Succeeded" or ("deletionTimestamp" in metadata and "nodeName" not in spec):
        metadata["labels"] = {"app": "late"}
        return data
    match draw(st.sampled_from(["bind", "bind", "start", "end", "delete", "label", "spoil", "mend", "resize", "open"])):
        case "bind":
            spec.setdefault("nodeName", draw(st.sampled_from(["n1", "n2"])))
            spec.pop("schedulingGates", None)
        case "start":
            status["startTime"] = "2026-01-01T00:00:05Z"
        case "end":
            status["phase"] = "Succeeded"
        case "delete":
            metadata["deletionTimestamp"] = "2026-01-01T00:00:09Z"
        case "label":
            metadata["labels"] = {"app": draw(st.sampled_from(["web", "db"]))}
        case "spoil":
            spec["affinity"] = NONSENSE
        case "mend":
            spec.pop("affinity", None)
        case "resize":
            spec["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
        case "open":
            spec.pop("schedulingGates", None)
    return data


@st.composite
def histories(draw):
    """Return a list of (resource, key, data or None), and after how many changes the cluster is opened."""
    pods: dict = {}
    others: dict = {}
    changes: list = []
    for at in range(draw(st.integers(1, 25))):
        if draw(st.booleans()):
            name = draw(st.sampled_from(["a", "b", "c"]))
            key = ("default", name)
            if key not in pods:
                pods[key] = new_pod(draw, name, f"{name}-{at}")
            elif draw(st.integers(0, 5)) == 0:
                pods.pop(key)
            else:
                pods[key] = next_step(draw, pods[key])
            changes.append((PODS, key, pods.get(key)))
            continue
        resource, data = thing(draw)
        key = (data["metadata"].get("namespace", ""), data["metadata"]["name"])
        place = (resource.path(), key)
        if place in others and draw(st.integers(0, 2)) == 0:
            del others[place]
            changes.append((resource, key, None))
        else:
            others[place] = data
            changes.append((resource, key, data))
    return changes, draw(st.integers(0, len(changes)))


def followed(changes, opened_after):
    cluster = FactCluster(is_open=False)
    for at, (resource, key, data) in enumerate(changes):
        if at == opened_after:
            cluster.open()
        if data is None:
            cluster.drop(resource, key[1], key[0])
        else:
            cluster.put_at(resource, key, data)
    if opened_after >= len(changes):
        cluster.open()
    return cluster


def booked(cluster):
    """Return the allocations of the engine, without the parts that depend on history.

    Those are devices that were not named, siblings of running pods, and invalid pods that wait.
    """
    state = cluster.engine.state
    resources = state.cluster.tables.resources.values
    hosts = {}
    for name, row in state.cluster.row_of.items():
        amounts = {
            resources[at]: int(used) for at, used in enumerate(state.cluster._used[row][: len(resources)]) if used
        }
        hosts[name] = (state.cluster.host(row), amounts, set(state.cluster.guests_on[row]))
    guests = {}
    for uid, record in state.guests.items():
        guest = record.guest
        if guest.host:
            guest = msgspec.structs.replace(guest, spec=msgspec.structs.replace(guest.spec, siblings=None))
        elif cluster.watched.pods[uid].problem:
            assert guest.spec.unsupported
            continue
        guests[uid] = guest
    return hosts, guests, dict(state.gangs.gangs), dict(state.budgets), cluster.watched.pods, cluster.watched.problems()


@settings(max_examples=count_examples(300), deadline=None)
@given(histories())
def test_changes_one_by_one_book_the_same_as_all_at_once(history):
    changes, opened_after = history
    last: dict = {}
    for resource, key, data in changes:
        last.pop((resource.path(), key), None)
        if data is not None:
            last[resource.path(), key] = (resource, key, data)
    final = list(last.values())
    stepwise = booked(followed(changes, opened_after))
    at_once = booked(followed(final, len(final)))
    for mine, fresh in zip(stepwise, at_once, strict=True):
        assert mine == fresh


@settings(max_examples=50, deadline=None)
@given(histories())
def test_the_same_object_again_is_no_fact(history):
    cluster = followed(*history)
    for resource, key, data in history[0]:
        if cluster.objects.get((resource.path(), key)) is not None and data is not None:
            cluster.put_at(resource, key, data)
            assert cluster.put_at(resource, key, data) == []
