"""Volumes that wait for their first consumer, on the API server in memory with a binder of our own in the test."""

from __future__ import annotations

from typing import Any

from tests.kube.faults.stage import Stage, play

LOCAL, CLOUD = "local", "cloud"


def storage(stage: Stage) -> None:
    for name, provisioner in ((LOCAL, "kubernetes.io/no-provisioner"), (CLOUD, "cloud.example.com")):
        stage.server.put(
            {
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            }
        )


def claim(stage: Stage, name: str, storage_class: str) -> None:
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    stage.server.put({"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})


def volume(stage: Stage, name: str, node: str, size: str = "10Gi") -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "storageClassName": LOCAL,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    stage.server.put(
        {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}
    )


def bound(stage: Stage, name: str, to: str) -> None:
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

    stage.server.change("persistentvolumeclaims", name, how)


def pod_with(stage: Stage, name: str, *claims: str, **more) -> None:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    stage.pod(name, volumes=volumes, **more)


def found(stage: Stage, resource: str, name: str, namespace: str = "default") -> dict[str, Any]:
    item = stage.server.get(resource, name, namespace)
    assert item is not None
    return item


def selected(stage: Stage, name: str) -> str:
    return (
        found(stage, "persistentvolumeclaims", name)["metadata"]
        .get("annotations", {})
        .get("volume.kubernetes.io/selected-node", "")
    )


def test_a_provisioner_is_told_the_node_and_the_pod_is_bound_when_the_claim_is():
    async def story(stage: Stage) -> None:
        storage(stage)
        stage.node("a")
        claim(stage, "data", CLOUD)
        await stage.lead()
        pod_with(stage, "db", "data")
        await stage.until(lambda: selected(stage, "data") == "a")
        assert stage.where("db") == ""
        stage.server.put({"kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {"capacity": {}}})
        bound(stage, "data", "disk")
        await stage.until(lambda: stage.where("db") == "a")

    play(story)


def test_the_smallest_local_volume_that_will_do_is_reserved():
    async def story(stage: Stage) -> None:
        storage(stage)
        stage.node("a")
        stage.node("b")
        volume(stage, "big", "b", "100Gi")
        volume(stage, "fits", "b", "20Gi")
        volume(stage, "small", "b", "5Gi")
        claim(stage, "data", LOCAL)
        await stage.lead()
        pod_with(stage, "db", "data")
        await stage.until(lambda: found(stage, "persistentvolumes", "fits", "")["spec"].get("claimRef"))
        reference = found(stage, "persistentvolumes", "fits", "")["spec"]["claimRef"]
        assert (reference["namespace"], reference["name"]) == ("default", "data")
        bound(stage, "data", "fits")
        await stage.until(lambda: stage.where("db") == "b")

    play(story)


def test_a_pod_without_a_volume_it_could_have_waits_with_the_reason():
    async def story(stage: Stage) -> None:
        storage(stage)
        stage.node("a")
        claim(stage, "data", LOCAL)
        await stage.lead()
        pod_with(stage, "db", "data")
        await stage.until(lambda: stage.why("db"))
        assert "didn't find available persistent volumes" in stage.why("db")
        volume(stage, "disk", "a")
        await stage.until(lambda: found(stage, "persistentvolumes", "disk", "")["spec"].get("claimRef"))
        bound(stage, "data", "disk")
        await stage.until(lambda: stage.where("db") == "a")

    play(story)


def test_a_provisioner_that_gives_up_a_node_sends_the_pod_elsewhere():
    async def story(stage: Stage) -> None:
        storage(stage)
        stage.node("a")
        stage.node("b")
        claim(stage, "data", CLOUD)
        await stage.lead()
        pod_with(stage, "db", "data")
        await stage.until(lambda: selected(stage, "data"))
        first = selected(stage, "data")
        await stage.sleep(2)

        def give_up(item):
            return {**item, "metadata": {**item["metadata"], "annotations": {}}}

        stage.server.change("nodes", first, lambda item: {**item, "spec": {"unschedulable": True}}, "")
        stage.server.change("persistentvolumeclaims", "data", give_up)
        await stage.until(lambda: selected(stage, "data") not in ("", first))
        second = selected(stage, "data")
        stage.server.put({"kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {"capacity": {}}})
        bound(stage, "data", "disk")
        await stage.until(lambda: stage.where("db") == second)

    play(story)


def test_claims_that_must_be_bound_before_are_waited_for():
    async def story(stage: Stage) -> None:
        stage.node("a")
        await stage.lead()
        pod_with(stage, "db", "data")
        await stage.until(lambda: stage.why("db"))
        assert 'persistentvolumeclaim "data" not found' in stage.why("db")

    play(story)
