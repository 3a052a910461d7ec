"""Faults 12 to 16 and 33 of the catalogue: pods and nodes that change between a decision and its bind."""

import pytest

from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import just_before, slow, throttled
from tests.kube.faults.simulated_cluster import SimulatedCluster, play

CLASS = {
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "example.com/none",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def _claim(name):
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending"}}


async def _decided(cluster: SimulatedCluster, name: str) -> str:
    """Wait until a node is chosen for a pod, and return it."""
    engine = cluster.actors[-1].scheduler.core.engine
    await cluster.until(lambda: cluster.uid(name) in set(engine.guests()) and engine.decision(cluster.uid(name)).host)
    return engine.decision(cluster.uid(name)).host


@run_with(play)
async def test_12_pod_deleted_while_bind_waits_is_not_bound_and_frees_room(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    leader = await cluster.lead()
    leader.script.next("binding", throttled(10), about="first")
    cluster.pod("first", cpu=2)
    await cluster.until(lambda: len(cluster.targets("first")) == 1)
    cluster.pod("second", cpu=2)
    await cluster.until(lambda: cluster.why("second"))
    cluster.server.delete("pods", "first")
    await cluster.until(lambda: cluster.where("second") == "n1")
    assert len(cluster.targets("first")) == 1, "only the try that was turned away"


@run_with(play)
async def test_12_pod_deleted_while_bind_is_in_flight_frees_room_at_once(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    leader = await cluster.lead()
    leader.script.next("binding", slow(3.0), about="first")
    cluster.pod("first", cpu=2)
    await cluster.until(lambda: cluster.targets("first") == ["n1"])
    cluster.pod("second", cpu=2)
    cluster.server.delete("pods", "first", grace_s=0)
    await cluster.until(lambda: cluster.where("second") == "n1", within_s=2.0)
    await cluster.until(lambda: leader.scheduler.binder.backlog == 0)


@run_with(play)
async def test_12_a_pod_deleted_while_its_volume_is_prepared_gives_its_room_back(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.server.put(CLASS)
    cluster.server.put(_claim("data"))
    leader = await cluster.lead()
    cluster.pod("first", cpu=2, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    await _decided(cluster, "first")
    await cluster.until(lambda: leader.scheduler.executors.external_answers.backlog == 1)
    cluster.pod("second", cpu=2)
    await cluster.until(lambda: cluster.why("second"))
    cluster.server.delete("pods", "first", grace_s=0)
    await cluster.until(lambda: cluster.where("second") == "n1")
    await cluster.until(lambda: leader.scheduler.executors.external_answers.backlog == 0)
    assert cluster.targets("first") == []


@run_with(play)
async def test_13_a_node_deleted_before_a_bind_is_sent_gets_no_bind(cluster: SimulatedCluster, /):
    cluster.node("doomed", cpu=8)
    leader = await cluster.lead()
    line = leader.script.next("binding", throttled(5), about="a")
    cluster.pod("a")
    await cluster.until(lambda: line.played == 1)
    cluster.server.delete("nodes", "doomed", "")
    cluster.node("other")
    await cluster.until(lambda: cluster.where("a") == "other")
    assert cluster.targets("a") == ["doomed", "other"]
    assert leader.scheduler.binder.counts.dropped == 1


@run_with(play, collect_s=20.0)
async def test_13_bind_to_removed_node_ends_and_successor_goes_elsewhere(cluster: SimulatedCluster, /):
    cluster.node("doomed", cpu=8)
    leader = await cluster.lead()
    leader.script.next("binding", just_before(lambda: cluster.server.delete("nodes", "doomed", "")), about="web-0")
    old = cluster.pod("web-0")["metadata"]["uid"]
    await cluster.until(lambda: cluster.where("web-0") == "doomed")
    cluster.node("other")
    assert leader.scheduler.core.engine.decision(old).state in ("bound", "assumed", "parked")
    await cluster.until(lambda: cluster.server.get("pods", "web-0") is None)  # the garbage collector
    cluster.pod("web-0")
    await cluster.until(lambda: cluster.where("web-0") == "other")
    cluster.pod("late")
    await cluster.until(lambda: cluster.where("late") == "other")


@run_with(play)
async def test_14_node_recreated_smaller_is_used_at_its_new_size(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=16)
    leader = await cluster.lead()
    cluster.pod("a", cpu=1)
    await cluster.until(lambda: cluster.where("a") == "n1")
    before = leader.scheduler.cluster.hosts["n1"].uid

    line = leader.script.next("binding", throttled(5), about="big")
    cluster.pod("big", cpu=8)
    await cluster.until(lambda: line.played == 1)
    cluster.server.delete("pods", "a", grace_s=0)
    cluster.server.delete("nodes", "n1", "")
    cluster.node("n1", cpu=4)
    await cluster.until(lambda: cluster.why("big"))
    assert leader.scheduler.cluster.hosts["n1"].uid != before
    cluster.pod("small", cpu=4)
    await cluster.until(lambda: cluster.where("small") == "n1")
    await cluster.sleep(30)
    assert not cluster.where("big")


@run_with(play)
async def test_14_node_recreated_larger_takes_the_waiting_pods(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=1)
    await cluster.lead()
    cluster.pod("big", cpu=8)
    await cluster.until(lambda: cluster.why("big"))
    cluster.server.delete("nodes", "n1", "")
    cluster.node("n1", cpu=8)
    await cluster.until(lambda: cluster.where("big") == "n1")


@pytest.mark.parametrize(
    "spec",
    [
        {"unschedulable": True},
        {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    ],
    ids=["cordon", "taint"],
)
@run_with(play)
async def test_15_a_node_that_was_closed_after_the_decision_gets_no_bind(cluster: SimulatedCluster, /, spec):
    cluster.node("first", cpu=64)
    leader = await cluster.lead()
    line = leader.script.next("binding", throttled(5), about="a")
    cluster.pod("a")
    await cluster.until(lambda: line.played == 1)
    cluster.change_node("first", **spec)
    cluster.node("second")
    await cluster.until(lambda: cluster.where("a") == "second")
    assert cluster.targets("a") == ["first", "second"]


@run_with(play)
async def test_15_a_heartbeat_of_a_node_does_not_undo_decisions(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    line = leader.script.next("binding", throttled(5), about="a")
    cluster.pod("a")
    await cluster.until(lambda: line.played == 1)
    cluster.server.change(
        "nodes", "n1", lambda item: {**item, "metadata": {**item["metadata"], "annotations": {"at": "1"}}}, ""
    )
    await cluster.until(lambda: cluster.where("a") == "n1")
    assert leader.scheduler.binder.counts.dropped == 0


@run_with(play)
async def test_16_node_shrunk_below_usage_gets_no_pods_and_evicts_none(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    leader = await cluster.lead()
    cluster.pod("a", cpu=6)
    await cluster.until(lambda: cluster.runs("a"))
    cluster.change_node("n1", cpu=2)
    await cluster.sleep(1)
    cluster.pod("b", cpu=1)
    await cluster.until(lambda: "Insufficient cpu" in cluster.why("b"))
    await cluster.sleep(400)
    assert cluster.where("a") == "n1"
    assert not cluster.where("b")
    assert cluster.requests("delete") == []
    assert leader.scheduler.core.engine.decision(cluster.uid("a")).host == "n1"


@run_with(play)
async def test_33_pods_that_others_place_are_counted_as_soon_as_they_are_seen(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    await cluster.lead()
    cluster.pod("daemon", cpu=1, on="n1", scheduler="default-scheduler")
    mirror = cluster.pod("mirror", cpu=1, on="n1", scheduler="default-scheduler")
    cluster.server.change(
        "pods",
        "mirror",
        lambda item: {
            **item,
            "metadata": {**mirror["metadata"], "annotations": {"kubernetes.io/config.mirror": "x"}},
        },
    )
    cluster.pod("foreign", cpu=1, scheduler="default-scheduler")
    cluster.bind_as_other("foreign", "n1")
    await cluster.sleep(1)
    cluster.pod("a", cpu=1)
    cluster.pod("b", cpu=1)
    await cluster.until(lambda: cluster.placed("a", "b") == 1)
    waiting = "b" if cluster.where("a") else "a"
    await cluster.until(lambda: "Insufficient cpu" in cluster.why(waiting))
    cluster.server.delete("pods", "foreign")
    await cluster.until(lambda: cluster.placed("a", "b") == 2)


@run_with(play, is_clean=False)
async def test_33_pod_rejected_by_kubelet_after_a_race_holds_nothing(cluster: SimulatedCluster, /):
    """Both bind within the same moment: that cannot be prevented, only survived."""

    cluster.node("n1", cpu=2)
    leader = await cluster.lead()
    cluster.pod("foreign", cpu=2, scheduler="default-scheduler")
    leader.script.next("binding", just_before(lambda: cluster.bind_as_other("foreign", "n1")), about="a")
    cluster.pod("a", cpu=2)
    await cluster.until(lambda: cluster.kubelet.refused == ["a"])
    await cluster.sleep(5)
    assert leader.scheduler.cluster.pods[cluster.uid("a")].has_ended
    cluster.node("n2", cpu=2)
    cluster.server.delete("pods", "a", grace_s=0)
    cluster.pod("a", cpu=2)  # its controller makes another
    await cluster.until(lambda: cluster.where("a") == "n2")
