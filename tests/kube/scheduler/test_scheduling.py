"""What a scheduler does on a cluster where nothing goes wrong, on the API server in memory."""

from __future__ import annotations

import msgspec

from hostler.engine import find_policy
from hostler.kube.settings import GangRules, Profile
from hostler.model import PreemptionRules
from tests.kube.faults.stage import OURS, Stage, play


def test_a_pod_is_bound_and_its_owner_is_told():
    async def story(stage: Stage) -> None:
        stage.node("a")
        await stage.lead()
        stage.pod("web")
        await stage.until(lambda: stage.events("web"))
        assert stage.where("web") == "a"
        assert stage.events("web") == ["Scheduled"]

    play(story)


def test_pods_of_other_schedulers_are_left_alone_and_count():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=4)
        await stage.lead()
        stage.pod("theirs", cpu=3, scheduler="default-scheduler")
        stage.pod("running", cpu=3, scheduler="default-scheduler", on="a")
        stage.pod("ours", cpu=2)
        await stage.until(lambda: stage.why("ours"))
        assert stage.where("theirs") == ""
        assert stage.why("ours") == "0/1 nodes are available: 1 Insufficient cpu."
        assert stage.events("ours") == ["FailedScheduling"]

    play(story)


def test_a_refused_pod_is_placed_when_room_appears():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=1)
        await stage.lead()
        stage.pod("big", cpu=2)
        await stage.until(lambda: stage.why("big"))
        stage.node("b", cpu=4)
        await stage.until(lambda: stage.where("big"))
        assert stage.where("big") == "b"

    play(story)


def test_a_gated_pod_waits_until_its_gates_go():
    async def story(stage: Stage) -> None:
        stage.node("a")
        await stage.lead()
        stage.pod("later", schedulingGates=[{"name": "quota"}])
        await stage.sleep(30)
        assert stage.targets("later") == []
        stage.server.change("pods", "later", lambda item: {**item, "spec": {**item["spec"], "schedulingGates": []}})
        await stage.until(lambda: stage.where("later"))

    play(story)


def test_a_preemptor_is_nominated_waits_for_its_victims_grace_and_is_bound():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=2)
        await stage.lead()
        stage.pod("low", cpu=2, grace_s=1)
        await stage.until(lambda: stage.runs("low"))
        stage.pod("high", cpu=2, priority=1000)
        await stage.until(lambda: stage.nominated("high") == "a")
        assert stage.where("high") == ""
        await stage.until(lambda: stage.where("high") == "a")
        assert "Preempted" in stage.events("low")

    play(story)


def test_a_victim_says_why_it_had_to_go():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=2)
        await stage.lead()
        stage.pod("low", cpu=2, grace_s=30)
        await stage.until(lambda: stage.runs("low"))
        stage.pod("high", cpu=2, priority=1000)
        await stage.until(lambda: stage.evicted("low"))
        pod = next(c.entry.item for c in stage.server.history if c.key[1] == "low" and _target(c.entry.item))
        assert _target(pod)["reason"] == "PreemptionByScheduler"

    play(story)


def _target(pod):
    known = [one for one in pod.get("status", {}).get("conditions", ()) if one["type"] == "DisruptionTarget"]
    return known[0] if known else None


def test_a_group_is_told_when_its_minimum_is_bound():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=8)
        await stage.lead()
        stage.group("crew", 3)
        stage.pod("crew-0", group="crew")
        stage.pod("crew-1", group="crew")
        await stage.until(lambda: "3" in stage.why("crew-0"))
        assert _group(stage)["status"] == "False"
        stage.pod("crew-2", group="crew")
        await stage.until(lambda: stage.placed("crew-0", "crew-1", "crew-2") == 3)
        await stage.until(lambda: _group(stage)["status"] == "True")

    play(story)


def _group(stage):
    group = stage.server.get("podgroups", "crew")
    return next(one for one in group["status"]["conditions"] if one["type"] == "PodGroupInitiallyScheduled")


def test_a_broken_gang_is_ended_in_time_where_the_configuration_says_so():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=2)
        stage.node("b", cpu=2)
        await stage.lead()
        stage.group("crew", 2)
        for number in range(2):
            stage.pod(f"crew-{number}", cpu=2, group="crew")
        await stage.until(lambda: stage.placed("crew-0", "crew-1") == 2)
        await stage.sleep(2)
        lost = "crew-0" if stage.where("crew-0") == "b" else "crew-1"
        kept = "crew-1" if lost == "crew-0" else "crew-0"
        stage.server.delete("nodes", "b", "")
        stage.server.delete("pods", lost, grace_s=0)
        await stage.sleep(20)
        assert stage.where(kept)
        await stage.until(lambda: stage.server.get("pods", kept) is None)

    play(story, gangs=GangRules(when_broken="release_after", release_after_s=30))


def test_a_reload_places_the_pods_of_another_name_by_another_policy():
    async def story(stage: Stage) -> None:
        for name in ("a", "b"):
            stage.node(name, cpu=8)
        actor = await stage.lead()
        stage.pod("first", on="a")
        stage.pod("other", scheduler="packer")
        await stage.sleep(10)
        assert stage.where("other") == ""
        pack = msgspec.structs.replace(find_policy("pack"), preemption=PreemptionRules())
        settings = actor.scheduler.settings
        profiles = (*settings.profiles, Profile("packer", "pack"))
        said = await actor.scheduler.adopt(
            msgspec.structs.replace(settings, profiles=profiles, policies=(*settings.policies, pack))
        )
        assert said.at_once == ["pods of packer are placed by pack now", "policy pack is new"]
        await stage.until(lambda: stage.where("other"))
        assert stage.where("other") == "a"

    play(story)


def test_a_reload_may_drop_a_policy_that_pods_wait_under():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=1)
        actor = await stage.lead()
        stage.pod("big", cpu=4)
        await stage.until(lambda: stage.why("big"))
        pack = msgspec.structs.replace(find_policy("pack"), preemption=PreemptionRules())
        settings = msgspec.structs.replace(
            actor.scheduler.settings, profiles=(Profile(OURS, "pack"),), policies=(pack,)
        )
        await actor.scheduler.adopt(settings)
        stage.node("b", cpu=8)
        await stage.until(lambda: stage.where("big") == "b")

    play(story)


def test_what_a_reload_cannot_change_is_named():
    async def story(stage: Stage) -> None:
        actor = await stage.lead()
        settings = actor.scheduler.settings
        limits = msgspec.structs.replace(settings.limits, max_in_flight=9)
        said = await actor.scheduler.adopt(msgspec.structs.replace(settings, limits=limits))
        assert said.later == [f"limits.max_in_flight: {settings.limits.max_in_flight} became 9"]

    play(story)
