"""A scheduler on a cluster without failures, on the API server in memory."""

from __future__ import annotations

import msgspec

from hostler.engine import find_policy
from hostler.kube.settings import GangRules, SchedulerProfile
from hostler.model import PreemptionRules
from tests.async_tests import run_with
from tests.kube.faults.simulated_cluster import OURS, SimulatedCluster, play


@run_with(play)
async def test_a_pod_is_bound_and_its_owner_is_notified(cluster: SimulatedCluster, /):
    cluster.node("a")
    await cluster.lead()
    cluster.pod("web")
    await cluster.until(lambda: cluster.events("web"))
    assert cluster.where("web") == "a"
    assert cluster.events("web") == ["Scheduled"]


@run_with(play)
async def test_pods_of_other_schedulers_are_left_alone_and_count(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=4)
    await cluster.lead()
    cluster.pod("theirs", cpu=3, scheduler="default-scheduler")
    cluster.pod("running", cpu=3, scheduler="default-scheduler", on="a")
    cluster.pod("ours", cpu=2)
    await cluster.until(lambda: cluster.why("ours"))
    assert cluster.where("theirs") == ""
    assert cluster.why("ours") == "0/1 nodes are available: 1 Insufficient cpu."
    assert cluster.events("ours") == ["FailedScheduling"]


@run_with(play)
async def test_a_refused_pod_is_placed_when_room_appears(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=1)
    await cluster.lead()
    cluster.pod("big", cpu=2)
    await cluster.until(lambda: cluster.why("big"))
    cluster.node("b", cpu=4)
    await cluster.until(lambda: cluster.where("big"))
    assert cluster.where("big") == "b"


@run_with(play)
async def test_a_gated_pod_waits_until_its_gates_go(cluster: SimulatedCluster, /):
    cluster.node("a")
    await cluster.lead()
    cluster.pod("later", schedulingGates=[{"name": "quota"}])
    await cluster.sleep(30)
    assert cluster.targets("later") == []
    cluster.server.change("pods", "later", lambda item: {**item, "spec": {**item["spec"], "schedulingGates": []}})
    await cluster.until(lambda: cluster.where("later"))


@run_with(play)
async def test_a_preemptor_is_nominated_waits_for_its_victims_grace_and_is_bound(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=2)
    await cluster.lead()
    cluster.pod("low", cpu=2, grace_s=1)
    await cluster.until(lambda: cluster.runs("low"))
    cluster.pod("high", cpu=2, priority=1000)
    await cluster.until(lambda: cluster.nominated("high") == "a")
    assert cluster.where("high") == ""
    await cluster.until(lambda: cluster.where("high") == "a")
    assert "Preempted" in cluster.events("low")


@run_with(play)
async def test_a_victim_says_why_it_had_to_go(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=2)
    await cluster.lead()
    cluster.pod("low", cpu=2, grace_s=30)
    await cluster.until(lambda: cluster.runs("low"))
    cluster.pod("high", cpu=2, priority=1000)
    await cluster.until(lambda: cluster.evicted("low"))
    pod = next(c.entry.item for c in cluster.server.history if c.key[1] == "low" and _target(c.entry.item))
    assert _target(pod)["reason"] == "PreemptionByScheduler"


def _target(pod):
    known = [one for one in pod.get("status", {}).get("conditions", ()) if one["type"] == "DisruptionTarget"]
    return known[0] if known else None


@run_with(play)
async def test_a_group_is_notified_when_its_minimum_is_bound(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=8)
    await cluster.lead()
    cluster.group("crew", 3)
    cluster.pod("crew-0", group="crew")
    cluster.pod("crew-1", group="crew")
    await cluster.until(lambda: "3" in cluster.why("crew-0"))
    assert _group(cluster)["status"] == "False"
    cluster.pod("crew-2", group="crew")
    await cluster.until(lambda: cluster.placed("crew-0", "crew-1", "crew-2") == 3)
    await cluster.until(lambda: _group(cluster)["status"] == "True")


def _group(cluster):
    group = cluster.server.get("podgroups", "crew")
    return next(one for one in group["status"]["conditions"] if one["type"] == "PodGroupInitiallyScheduled")


@run_with(play, gangs=GangRules(when_broken="release_after", release_after_s=30))
async def test_a_broken_gang_is_ended_in_time_where_the_configuration_says_so(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=2)
    cluster.node("b", cpu=2)
    await cluster.lead()
    cluster.group("crew", 2)
    for number in range(2):
        cluster.pod(f"crew-{number}", cpu=2, group="crew")
    await cluster.until(lambda: cluster.placed("crew-0", "crew-1") == 2)
    await cluster.sleep(2)
    lost = "crew-0" if cluster.where("crew-0") == "b" else "crew-1"
    kept = "crew-1" if lost == "crew-0" else "crew-0"
    cluster.server.delete("nodes", "b", "")
    cluster.server.delete("pods", lost, grace_s=0)
    await cluster.sleep(20)
    assert cluster.where(kept)
    await cluster.until(lambda: cluster.server.get("pods", kept) is None)


@run_with(play)
async def test_a_reload_places_the_pods_of_another_name_by_another_policy(cluster: SimulatedCluster, /):
    for name in ("a", "b"):
        cluster.node(name, cpu=8)
    actor = await cluster.lead()
    cluster.pod("first", on="a")
    cluster.pod("other", scheduler="packer")
    await cluster.sleep(10)
    assert cluster.where("other") == ""
    pack = msgspec.structs.replace(find_policy("pack"), preemption=PreemptionRules())
    settings = actor.scheduler.settings
    profiles = (*settings.profiles, SchedulerProfile("packer", "pack"))
    said = await actor.scheduler.adopt(
        msgspec.structs.replace(settings, profiles=profiles, policies=(*settings.policies, pack))
    )
    assert said.at_once == ["pods of packer are now placed by pack", "policy pack is new"]
    await cluster.until(lambda: cluster.where("other"))
    assert cluster.where("other") == "a"


@run_with(play)
async def test_a_reload_may_drop_a_policy_that_pods_wait_under(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=1)
    actor = await cluster.lead()
    cluster.pod("big", cpu=4)
    await cluster.until(lambda: cluster.why("big"))
    pack = msgspec.structs.replace(find_policy("pack"), preemption=PreemptionRules())
    settings = msgspec.structs.replace(
        actor.scheduler.settings, profiles=(SchedulerProfile(OURS, "pack"),), policies=(pack,)
    )
    await actor.scheduler.adopt(settings)
    cluster.node("b", cpu=8)
    await cluster.until(lambda: cluster.where("big") == "b")


@run_with(play)
async def test_what_a_reload_cannot_change_is_named(cluster: SimulatedCluster, /):
    actor = await cluster.lead()
    settings = actor.scheduler.settings
    limits = msgspec.structs.replace(settings.limits, max_in_flight=9)
    said = await actor.scheduler.adopt(msgspec.structs.replace(settings, limits=limits))
    assert said.later == [f"limits.max_in_flight: {settings.limits.max_in_flight} became 9"]
