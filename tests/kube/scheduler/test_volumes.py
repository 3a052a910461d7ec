"""Volumes that wait for their first consumer, on the API server in memory; the tests play the volume controller."""

from __future__ import annotations

from typing import Any

from tests.async_tests import run_with
from tests.kube.faults.simulated_cluster import SimulatedCluster, play

LOCAL, CLOUD = "local", "cloud"


def storage(cluster: SimulatedCluster) -> None:
    for name, provisioner in ((LOCAL, "kubernetes.io/no-provisioner"), (CLOUD, "cloud.example.com")):
        cluster.server.put(
            {
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        )


def claim(cluster: SimulatedCluster, name: str, storage_class: str) -> None:
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    cluster.server.put({"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})


def volume(cluster: SimulatedCluster, name: str, node: str, size: str = "10Gi") -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "storageClassName": LOCAL,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    cluster.server.put(
        {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}
    )


def bound(cluster: SimulatedCluster, name: str, to: str) -> None:
    """Do what the volume controller does when a claim has its volume."""

    def how(item):
        annotations = {**item["metadata"].get("annotations", {}), "pv.kubernetes.io/bind-completed": "yes"}
        metadata = {**item["metadata"], "annotations": annotations}
        return {
            **item,
            "metadata": metadata,
            "spec": {**item["spec"], "volumeName": to},
            "status": {"phase": "Bound"},
        }

    cluster.server.change("persistentvolumeclaims", name, how)


def pod_with(cluster: SimulatedCluster, name: str, *claims: str, **more) -> None:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    cluster.pod(name, volumes=volumes, **more)


def found(cluster: SimulatedCluster, resource: str, name: str, namespace: str = "default") -> dict[str, Any]:
    item = cluster.server.get(resource, name, namespace)
    assert item is not None
    return item


def selected(cluster: SimulatedCluster, name: str) -> str:
    return (
        found(cluster, "persistentvolumeclaims", name)["metadata"]
        .get("annotations", {})
        .get("volume.kubernetes.io/selected-node", "")
    )


@run_with(play)
async def test_provisioner_gets_the_node_and_pod_is_bound_with_the_claim(cluster: SimulatedCluster, /):
    storage(cluster)
    cluster.node("a")
    claim(cluster, "data", CLOUD)
    await cluster.lead()
    pod_with(cluster, "db", "data")
    await cluster.until(lambda: selected(cluster, "data") == "a")
    assert cluster.where("db") == ""
    cluster.server.put({"kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {"capacity": {}}})
    bound(cluster, "data", "disk")
    await cluster.until(lambda: cluster.where("db") == "a")


@run_with(play)
async def test_the_smallest_local_volume_that_will_do_is_reserved(cluster: SimulatedCluster, /):
    storage(cluster)
    cluster.node("a")
    cluster.node("b")
    volume(cluster, "big", "b", "100Gi")
    volume(cluster, "fits", "b", "20Gi")
    volume(cluster, "small", "b", "5Gi")
    claim(cluster, "data", LOCAL)
    await cluster.lead()
    pod_with(cluster, "db", "data")
    await cluster.until(lambda: found(cluster, "persistentvolumes", "fits", "")["spec"].get("claimRef"))
    reference = found(cluster, "persistentvolumes", "fits", "")["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == ("default", "data")
    bound(cluster, "data", "fits")
    await cluster.until(lambda: cluster.where("db") == "b")


@run_with(play)
async def test_a_pod_without_a_volume_it_could_have_waits_with_the_reason(cluster: SimulatedCluster, /):
    storage(cluster)
    cluster.node("a")
    claim(cluster, "data", LOCAL)
    await cluster.lead()
    pod_with(cluster, "db", "data")
    await cluster.until(lambda: cluster.why("db"))
    assert "didn't find available persistent volumes" in cluster.why("db")
    volume(cluster, "disk", "a")
    await cluster.until(lambda: found(cluster, "persistentvolumes", "disk", "")["spec"].get("claimRef"))
    bound(cluster, "data", "disk")
    await cluster.until(lambda: cluster.where("db") == "a")


@run_with(play)
async def test_a_provisioner_that_gives_up_a_node_sends_the_pod_elsewhere(cluster: SimulatedCluster, /):
    storage(cluster)
    cluster.node("a")
    cluster.node("b")
    claim(cluster, "data", CLOUD)
    await cluster.lead()
    pod_with(cluster, "db", "data")
    await cluster.until(lambda: selected(cluster, "data"))
    first = selected(cluster, "data")
    await cluster.sleep(2)

    def give_up(item):
        return {**item, "metadata": {**item["metadata"], "annotations": {}}}

    cluster.server.change("nodes", first, lambda item: {**item, "spec": {"unschedulable": True}}, "")
    cluster.server.change("persistentvolumeclaims", "data", give_up)
    await cluster.until(lambda: selected(cluster, "data") not in ("", first))
    second = selected(cluster, "data")
    cluster.server.put({"kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {"capacity": {}}})
    bound(cluster, "data", "disk")
    await cluster.until(lambda: cluster.where("db") == second)


@run_with(play)
async def test_claims_that_must_be_bound_before_are_waited_for(cluster: SimulatedCluster, /):
    cluster.node("a")
    await cluster.lead()
    pod_with(cluster, "db", "data")
    await cluster.until(lambda: cluster.why("db"))
    assert 'persistentvolumeclaim "data" not found' in cluster.why("db")
