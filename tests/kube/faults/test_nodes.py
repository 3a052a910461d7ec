"""Faults 12 to 16 and 33 of the catalogue: pods and nodes that change between a decision and its bind."""

import pytest

from tests.kube.faults.script import just_before, slow, throttled
from tests.kube.faults.stage import Stage, play

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


async def _decided(stage: Stage, name: str) -> str:
    """Wait until a pod is promised a node, and return that."""
    engine = stage.actors[-1].scheduler.core.engine
    await stage.until(lambda: stage.uid(name) in set(engine.guests()) and engine.decision(stage.uid(name)).host)
    return engine.decision(stage.uid(name)).host


def test_12_a_pod_deleted_while_its_bind_waits_is_not_bound_and_its_room_goes_to_another():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        leader = await stage.lead()
        leader.script.next("binding", throttled(10), about="first")
        stage.pod("first", cpu=2)
        await stage.until(lambda: len(stage.targets("first")) == 1)
        stage.pod("second", cpu=2)
        await stage.until(lambda: stage.why("second"))
        stage.server.delete("pods", "first")
        await stage.until(lambda: stage.where("second") == "n1")
        assert len(stage.targets("first")) == 1, "only the try that was turned away"

    play(story)


def test_12_a_pod_deleted_while_its_bind_is_under_way_gives_its_room_back_at_once():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        leader = await stage.lead()
        leader.script.next("binding", slow(3.0), about="first")
        stage.pod("first", cpu=2)
        await stage.until(lambda: stage.targets("first") == ["n1"])
        stage.pod("second", cpu=2)
        stage.server.delete("pods", "first", grace_s=0)
        await stage.until(lambda: stage.where("second") == "n1", within_s=2.0)
        await stage.until(lambda: leader.scheduler.binder.backlog == 0)

    play(story)


def test_12_a_pod_deleted_while_its_volume_is_prepared_gives_its_room_back():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.server.put(CLASS)
        stage.server.put(_claim("data"))
        leader = await stage.lead()
        stage.pod("first", cpu=2, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
        await _decided(stage, "first")
        await stage.until(lambda: leader.scheduler.hands.outside.backlog == 1)
        stage.pod("second", cpu=2)
        await stage.until(lambda: stage.why("second"))
        stage.server.delete("pods", "first", grace_s=0)
        await stage.until(lambda: stage.where("second") == "n1")
        await stage.until(lambda: leader.scheduler.hands.outside.backlog == 0)
        assert stage.targets("first") == []

    play(story)


def test_13_a_node_deleted_before_a_bind_is_sent_gets_no_bind():
    async def story(stage: Stage) -> None:
        stage.node("doomed", cpu=8)
        leader = await stage.lead()
        line = leader.script.next("binding", throttled(5), about="a")
        stage.pod("a")
        await stage.until(lambda: line.played == 1)
        stage.server.delete("nodes", "doomed", "")
        stage.node("other")
        await stage.until(lambda: stage.where("a") == "other")
        assert stage.targets("a") == ["doomed", "other"]
        assert leader.scheduler.binder.counts.dropped == 1

    play(story)


def test_13_a_bind_to_a_node_that_just_went_ends_with_the_pod_and_its_successor_goes_elsewhere():
    async def story(stage: Stage) -> None:
        stage.node("doomed", cpu=8)
        leader = await stage.lead()
        leader.script.next("binding", just_before(lambda: stage.server.delete("nodes", "doomed", "")), about="web-0")
        old = stage.pod("web-0")["metadata"]["uid"]
        await stage.until(lambda: stage.where("web-0") == "doomed")
        stage.node("other")
        assert leader.scheduler.core.engine.decision(old).state in ("bound", "assumed", "parked")
        await stage.until(lambda: stage.server.get("pods", "web-0") is None)  # the garbage collector
        stage.pod("web-0")
        await stage.until(lambda: stage.where("web-0") == "other")
        stage.pod("late")
        await stage.until(lambda: stage.where("late") == "other")

    play(story, collect_s=20.0)


def test_14_a_node_that_comes_back_smaller_under_its_name_is_taken_for_what_it_is_now():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=16)
        leader = await stage.lead()
        stage.pod("a", cpu=1)
        await stage.until(lambda: stage.where("a") == "n1")
        before = leader.scheduler.world.hosts["n1"].uid

        line = leader.script.next("binding", throttled(5), about="big")
        stage.pod("big", cpu=8)
        await stage.until(lambda: line.played == 1)
        stage.server.delete("pods", "a", grace_s=0)
        stage.server.delete("nodes", "n1", "")
        stage.node("n1", cpu=4)
        await stage.until(lambda: stage.why("big"))
        assert leader.scheduler.world.hosts["n1"].uid != before
        stage.pod("small", cpu=4)
        await stage.until(lambda: stage.where("small") == "n1")
        await stage.sleep(30)
        assert not stage.where("big")

    play(story)


def test_14_a_node_that_comes_back_larger_under_its_name_takes_those_who_wait():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=1)
        await stage.lead()
        stage.pod("big", cpu=8)
        await stage.until(lambda: stage.why("big"))
        stage.server.delete("nodes", "n1", "")
        stage.node("n1", cpu=8)
        await stage.until(lambda: stage.where("big") == "n1")

    play(story)


@pytest.mark.parametrize(
    "spec",
    [
        {"unschedulable": True},
        {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    ],
    ids=["cordon", "taint"],
)
def test_15_a_node_that_was_closed_after_the_decision_gets_no_bind(spec):
    async def story(stage: Stage) -> None:
        stage.node("first", cpu=64)
        leader = await stage.lead()
        line = leader.script.next("binding", throttled(5), about="a")
        stage.pod("a")
        await stage.until(lambda: line.played == 1)
        stage.change_node("first", **spec)
        stage.node("second")
        await stage.until(lambda: stage.where("a") == "second")
        assert stage.targets("a") == ["first", "second"]

    play(story)


def test_15_a_heartbeat_of_a_node_does_not_undo_decisions():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        line = leader.script.next("binding", throttled(5), about="a")
        stage.pod("a")
        await stage.until(lambda: line.played == 1)
        stage.server.change(
            "nodes", "n1", lambda item: {**item, "metadata": {**item["metadata"], "annotations": {"at": "1"}}}, ""
        )
        await stage.until(lambda: stage.where("a") == "n1")
        assert leader.scheduler.binder.counts.dropped == 0

    play(story)


def test_16_a_node_that_shrinks_below_what_runs_there_gets_nothing_more_and_nobody_is_evicted():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        leader = await stage.lead()
        stage.pod("a", cpu=6)
        await stage.until(lambda: stage.runs("a"))
        stage.change_node("n1", cpu=2)
        await stage.sleep(1)
        stage.pod("b", cpu=1)
        await stage.until(lambda: "Insufficient cpu" in stage.why("b"))
        await stage.sleep(400)
        assert stage.where("a") == "n1"
        assert not stage.where("b")
        assert stage.requests("delete") == []
        assert leader.scheduler.core.engine.decision(stage.uid("a")).host == "n1"

    play(story)


def test_33_pods_that_others_place_are_counted_as_soon_as_they_are_seen():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        await stage.lead()
        stage.pod("daemon", cpu=1, on="n1", scheduler="default-scheduler")
        mirror = stage.pod("mirror", cpu=1, on="n1", scheduler="default-scheduler")
        stage.server.change(
            "pods",
            "mirror",
            lambda item: {
                **item,
                "metadata": {**mirror["metadata"], "annotations": {"kubernetes.io/config.mirror": "x"}},
            },
        )
        stage.pod("foreign", cpu=1, scheduler="default-scheduler")
        stage.bind_as_other("foreign", "n1")
        await stage.sleep(1)
        stage.pod("a", cpu=1)
        stage.pod("b", cpu=1)
        await stage.until(lambda: stage.placed("a", "b") == 1)
        waiting = "b" if stage.where("a") else "a"
        await stage.until(lambda: "Insufficient cpu" in stage.why(waiting))
        stage.server.delete("pods", "foreign")
        await stage.until(lambda: stage.placed("a", "b") == 2)

    play(story)


def test_33_a_pod_that_the_kubelet_refuses_because_another_scheduler_was_faster_holds_nothing():
    """Both bind within the same moment: that cannot be prevented, only survived."""

    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        leader = await stage.lead()
        stage.pod("foreign", cpu=2, scheduler="default-scheduler")
        leader.script.next("binding", just_before(lambda: stage.bind_as_other("foreign", "n1")), about="a")
        stage.pod("a", cpu=2)
        await stage.until(lambda: stage.kubelet.refused == ["a"])
        await stage.sleep(5)
        assert leader.scheduler.world.pods[stage.uid("a")].has_ended
        stage.node("n2", cpu=2)
        stage.server.delete("pods", "a", grace_s=0)
        stage.pod("a", cpu=2)  # its controller makes another
        await stage.until(lambda: stage.where("a") == "n2")

    play(story, is_clean=False)
