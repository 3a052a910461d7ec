"""Faults 20 to 23 and 34 of the catalogue: gangs that lose members, change their size, collide, or are not served."""

import pytest

from hostler.kube.settings import ApiLimits, GangRules
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import throttled
from tests.kube.faults.simulated_cluster import SECOND, SimulatedCluster, play

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
DEFINITION = {
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}}}],
    },
}


def _members(cluster, group, count, cpu=1, **more):
    names = [f"{group}-{number}" for number in range(count)]
    for name in names:
        cluster.pod(name, cpu=cpu, group=group, **more)
    return names


def _resize(cluster, group, least):
    policy = {"gang": {"minCount": least}}
    cluster.server.change(
        "podgroups", group, lambda item: {**item, "spec": {**item["spec"], "schedulingPolicy": policy}}
    )


def _bound_at(cluster, name):
    """Return when a pod got its node, by the server's history."""
    return next(
        change.time
        for change in cluster.server.history
        if change.kind.plural == "pods" and change.key[1] == name and change.entry.item["spec"].get("nodeName")
    )


@run_with(play, limits=ApiLimits(max_in_flight=1))
async def test_20_a_gang_that_loses_a_member_while_its_binds_wait_starts_nobody(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    leader = await cluster.lead()
    cluster.group("team", least=3)
    line = leader.script.next("binding", throttled(10))
    names = _members(cluster, "team", 3, cpu=2)
    await cluster.until(lambda: line.played)
    cluster.server.delete("pods", names[1])
    await cluster.sleep(60)
    assert cluster.placed(*names) == 0, "two of three were never meant to run"
    await cluster.until(lambda: "2/3 members" in cluster.why(names[0]))
    cluster.pod("other", cpu=8)
    await cluster.until(lambda: cluster.where("other") == "n1")


@run_with(play)
async def test_20_a_gang_that_loses_a_member_while_it_waits_holds_nothing(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    await cluster.lead()
    cluster.group("team", least=3)
    names = _members(cluster, "team", 3)
    await cluster.until(lambda: cluster.why(names[0]))
    cluster.server.delete("pods", names[2])
    await cluster.until(lambda: "2/3 members" in cluster.why(names[0]))
    cluster.pod("other", cpu=2)
    await cluster.until(lambda: cluster.where("other") == "n1")


@run_with(play, gangs=GangRules(when_broken="release_after", release_after_s=30.0))
async def test_20_running_gang_that_lost_a_member_is_released_if_rule_says_so(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    await cluster.lead()
    cluster.group("team", least=3)
    names = _members(cluster, "team", 3)
    await cluster.until(lambda: cluster.placed(*names) == 3)
    cluster.server.delete("pods", names[0])
    begun = cluster.now()
    await cluster.sleep(20)
    assert cluster.placed(*names) == 2
    await cluster.until(lambda: cluster.server.get("pods", names[1]) is None)
    assert 30 * SECOND <= cluster.now() - begun < 45 * SECOND


@run_with(play)
async def test_20_running_gang_keeps_members_and_is_refilled_if_rule_says_so(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    await cluster.lead()
    cluster.group("team", least=3)
    names = _members(cluster, "team", 3)
    await cluster.until(lambda: cluster.placed(*names) == 3)
    cluster.server.delete("pods", names[0])
    await cluster.sleep(120)
    assert cluster.placed(*names) == 2
    cluster.pod("team-new", group="team")
    await cluster.until(lambda: cluster.where("team-new") == "n1")


@run_with(play)
async def test_21_a_minimum_that_is_lowered_wakes_the_group(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    await cluster.lead()
    cluster.group("team", least=3)
    names = _members(cluster, "team", 3)
    await cluster.until(lambda: cluster.why(names[0]))
    _resize(cluster, "team", 2)
    await cluster.until(lambda: cluster.placed(*names) == 2)


@run_with(play)
async def test_21_a_minimum_that_is_lowered_to_those_who_are_there_lets_them_run(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    await cluster.lead()
    cluster.group("team", least=4)
    names = _members(cluster, "team", 2)
    await cluster.until(lambda: "2/4 members" in cluster.why(names[0]))
    _resize(cluster, "team", 2)
    await cluster.until(lambda: cluster.placed(*names) == 2)


@run_with(play)
async def test_21_minimum_raised_while_waiting_counts_from_the_next_try(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=1)
    await cluster.lead()
    cluster.group("team", least=2)
    names = _members(cluster, "team", 3)
    await cluster.until(lambda: cluster.why(names[0]))
    _resize(cluster, "team", 3)
    await cluster.sleep(1)
    cluster.change_node("n1", cpu=2)
    await cluster.sleep(60)
    assert cluster.placed(*names) == 0
    cluster.change_node("n1", cpu=3)
    await cluster.until(lambda: cluster.placed(*names) == 3)


@run_with(play)
async def test_21_a_minimum_that_is_raised_during_a_cycle_does_not_undo_it(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    leader = await cluster.lead()
    cluster.group("team", least=2)
    line = leader.script.next("binding", throttled(5))
    names = _members(cluster, "team", 2)
    await cluster.until(lambda: line.played)
    _resize(cluster, "team", 3)
    await cluster.until(lambda: cluster.placed(*names) == 2)
    cluster.pod("team-late", group="team")
    await cluster.until(lambda: cluster.where("team-late") == "n1")


@run_with(play)
async def test_21_a_member_that_comes_late_joins_its_running_gang(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    leader = await cluster.lead()
    cluster.group("team", least=2)
    line = leader.script.next("binding", throttled(5))
    names = _members(cluster, "team", 2)
    await cluster.until(lambda: line.played)
    cluster.pod("team-late", group="team")
    await cluster.until(lambda: cluster.placed(*names, "team-late") == 3)


@pytest.mark.parametrize(("first", "second", "winner"), [(0, 0, "old"), (0, 10, "young"), (10, 0, "old")])
@run_with(play)
async def test_22_of_two_gangs_over_half_one_runs_and_the_other_holds_nothing(
    cluster: SimulatedCluster, /, first, second, winner
):
    cluster.node("big", cpu=8)
    cluster.pod("block", cpu=4, on="big", priority=100)
    cluster.group("old", least=3, priority=first)
    cluster.group("young", least=3, priority=second)
    await cluster.lead()
    names = {"old": _members(cluster, "old", 3, cpu=2, priority=first)}
    await cluster.sleep(2)
    names["young"] = _members(cluster, "young", 3, cpu=2, priority=second)
    await cluster.until(lambda: cluster.why("old-0") and cluster.why("young-0"))
    await cluster.sleep(60)  # neither is held back by a backoff when there is room
    cluster.server.delete("pods", "block")
    await cluster.until(lambda: cluster.placed(*names[winner]) == 3)
    loser = "young" if winner == "old" else "old"
    begun = cluster.now()
    await cluster.sleep(1000)  # a hundred tries at the longest backoff
    assert cluster.placed(*names[loser]) == 0
    assert cluster.placed(*names[winner]) == 3
    assert cluster.requests("delete", since=begun) == []
    cluster.pod("small", cpu=2)
    await cluster.until(lambda: cluster.where("small") == "big")


@run_with(play)
async def test_22_the_loser_runs_when_the_winner_has_ended(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    cluster.group("a", least=3)
    cluster.group("b", least=3)
    await cluster.lead()
    names = [*_members(cluster, "a", 3), *_members(cluster, "b", 3)]
    await cluster.until(lambda: cluster.placed(*names) == 3)
    winner = "a" if cluster.where("a-0") else "b"
    for number in range(3):
        cluster.server.delete("pods", f"{winner}-{number}")
    loser = "b" if winner == "a" else "a"
    await cluster.until(lambda: cluster.placed(*(f"{loser}-{number}" for number in range(3))) == 3)


@run_with(play)
async def test_23_a_gang_without_its_quorum_is_gated_says_so_and_holds_nothing(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    leader = await cluster.lead()
    cluster.group("team", least=4)
    names = _members(cluster, "team", 2)
    await cluster.until(lambda: all("2/4 members" in cluster.why(name) for name in names))
    assert "FailedScheduling" in cluster.events(names[0])
    engine = leader.scheduler.core.engine
    assert {engine.decision(cluster.uid(name)).state for name in names} == {"gated"}
    assert not engine.view.queue_length
    cluster.pod("other", cpu=4)
    await cluster.until(lambda: cluster.where("other") == "n1")
    begun = cluster.now()
    await cluster.sleep(900)
    writes = [entry for entry in cluster.requests(since=begun) if entry.method != "GET" and "/leases" not in entry.path]
    assert len(writes) < 5, "a gang that waits for members costs nothing"
    assert cluster.placed(*names) == 0


@run_with(play, without=("scheduling.k8s.io/v1beta1",))
async def test_34_group_without_api_waits_with_reason_until_it_is_served(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    leader = await cluster.lead()
    names = ["m0", "m1"]
    for name in names:
        cluster.pod(name, labels={GROUP_LABEL: "team"})
    cluster.pod("single")
    await cluster.until(lambda: cluster.where("single") == "n1")
    await cluster.until(lambda: all("gang default/team is not known yet" in cluster.why(name) for name in names))
    assert leader.scheduler.reflectors["PodGroupscheduling.x-k8s.io"].is_absent
    cluster.server.put(DEFINITION)
    cluster.server.put({"kind": "PodGroup", "metadata": {"name": "team"}, "spec": {"minMember": 2}})
    await cluster.until(lambda: cluster.placed(*names) == 2)
    assert not leader.scheduler.reflectors["PodGroupscheduling.x-k8s.io"].is_absent


@run_with(play, without=("scheduling.k8s.io/v1beta1",))
async def test_34_deleted_definition_evicts_no_pod_and_new_members_wait(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    cluster.server.put(DEFINITION)
    cluster.server.put({"kind": "PodGroup", "metadata": {"name": "team"}, "spec": {"minMember": 2}})
    leader = await cluster.lead()
    for name in ("m0", "m1"):
        cluster.pod(name, labels={GROUP_LABEL: "team"})
    await cluster.until(lambda: cluster.placed("m0", "m1") == 2)

    cluster.server.delete("podgroups", "team")  # the real server deletes the objects first
    cluster.server.delete("customresourcedefinitions", "podgroups.scheduling.x-k8s.io", "")
    await cluster.until(lambda: leader.scheduler.reflectors["PodGroupscheduling.x-k8s.io"].is_absent, within_s=900)
    cluster.pod("late", labels={GROUP_LABEL: "team"})
    cluster.pod("single")
    await cluster.until(lambda: cluster.where("single") == "n1")
    await cluster.until(lambda: "gang default/team is not known yet" in cluster.why("late"))
    assert cluster.placed("m0", "m1") == 2
    begun = cluster.now()
    await cluster.sleep(300)
    asked = [entry for entry in cluster.requests("read", since=begun) if "scheduling.x-k8s.io" in entry.path]
    assert 8 <= len(asked) <= 12, "an absent API is asked for about twice a minute"

    cluster.server.put(DEFINITION)
    cluster.server.put({"kind": "PodGroup", "metadata": {"name": "team"}, "spec": {"minMember": 2}})
    await cluster.until(lambda: cluster.where("late") == "n1")
