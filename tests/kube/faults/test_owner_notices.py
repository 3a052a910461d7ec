"""Notices to the owners of pods while things go wrong: the events and metrics of the catalogue, and no others."""

from hostler.kube.service.collector import metrics_text
from hostler.kube.service.numbers import QueueNumbers
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import just_before, refused
from tests.kube.faults.simulated_cluster import SimulatedCluster, play


def _metric(cluster: SimulatedCluster, name: str) -> float:
    text = metrics_text(cluster.actors[-1].scheduler, cluster.clock, QueueNumbers(), None).decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"hostler_{name} "))


def _notes(cluster: SimulatedCluster, pod: str, reason: str) -> list[str]:
    events = cluster.server.objects("events")
    return [event["note"] for event in events if event["regarding"]["name"] == pod and event["reason"] == reason]


@run_with(play, collect_s=20.0)
async def test_13_a_bind_to_a_node_that_just_went_is_counted(cluster: SimulatedCluster, /):
    cluster.node("doomed", cpu=8)
    leader = await cluster.lead()
    cluster.pod("calm")
    await cluster.until(lambda: cluster.where("calm") == "doomed")
    await cluster.sleep(60)
    leader.script.next("binding", just_before(lambda: cluster.server.delete("nodes", "doomed", "")), about="web")
    cluster.pod("web")
    await cluster.until(lambda: cluster.where("web") == "doomed")
    await cluster.until(lambda: _metric(cluster, "binds_to_vanished_nodes_total") == 1)
    await cluster.sleep(60)
    assert _metric(cluster, "binds_to_vanished_nodes_total") == 1


@run_with(play, collect_s=20.0)
async def test_13_node_gone_right_after_a_good_bind_is_no_bind_to_nothing(cluster: SimulatedCluster, /):
    cluster.node("doomed", cpu=8)
    await cluster.lead()
    cluster.pod("web")
    await cluster.until(lambda: cluster.where("web"))
    await cluster.sleep(0.1)
    cluster.server.delete("nodes", "doomed", "")
    await cluster.sleep(60)
    assert _metric(cluster, "binds_to_vanished_nodes_total") == 0


@run_with(play, collect_s=20.0)
async def test_13_bind_answered_after_its_node_was_seen_gone_is_counted_once(cluster: SimulatedCluster, /):
    cluster.node("doomed", cpu=8)
    leader = await cluster.lead()

    async def gone_first(script, request):
        cluster.server.delete("nodes", "doomed", "")
        await cluster.sleep(1)
        return await script.deliver(request)

    leader.script.next("binding", gone_first, about="web")
    cluster.pod("web")
    await cluster.until(lambda: cluster.where("web") == "doomed")
    await cluster.sleep(60)
    assert _metric(cluster, "binds_to_vanished_nodes_total") == 1


@run_with(play)
async def test_23_a_gang_that_waits_too_long_for_members_is_notified_once(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    await cluster.lead()
    cluster.group("team", least=3)
    cluster.pod("m0", group="team")
    cluster.pod("m1", group="team")
    await cluster.sleep(200)
    assert _metric(cluster, "gang_wait_timeouts_total") == 0
    await cluster.until(lambda: cluster.events("m0") == ["FailedScheduling", "GangWaitTimeout"], within_s=200)
    assert "2/3 members of gang default/team" in _notes(cluster, "m1", "GangWaitTimeout")[0]
    await cluster.sleep(900)
    assert _metric(cluster, "gang_wait_timeouts_total") == 1
    assert len(cluster.events("m0")) == 2
    cluster.pod("m2", group="team")
    await cluster.until(lambda: cluster.placed("m0", "m1", "m2") == 3)


@run_with(play)
async def test_23_a_gang_that_is_complete_in_time_is_never_told_that_it_waited(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    await cluster.lead()
    cluster.group("team", least=2)
    cluster.pod("m0", group="team")
    await cluster.sleep(100)
    cluster.pod("m1", group="team")
    await cluster.until(lambda: cluster.placed("m0", "m1") == 2)
    await cluster.sleep(900)
    assert _metric(cluster, "gang_wait_timeouts_total") == 0
    assert cluster.events("m1") == ["Scheduled"]


@run_with(play)
async def test_26_recurring_victims_are_reported_to_the_preemptor(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.pod("zombie0", cpu=2, on="n1", scheduler="other")
    await cluster.lead()
    count = [0]

    def put_back(change) -> None:
        if change.kind.plural == "pods" and change.type == "DELETED":
            count[0] += 1
            cluster.pod(f"zombie{count[0]}", cpu=2, on="n1", scheduler="other")

    cluster.server.store.listen(put_back)
    await cluster.until(lambda: cluster.runs("zombie0"))
    cluster.pod("high", cpu=2, priority=10)
    await cluster.until(lambda: count[0] == 3, within_s=500)
    await cluster.sleep(100)
    assert [note.split("(")[1][:7] for note in _notes(cluster, "high", "PreemptionRepeated")] == [
        "2 times",
        "3 times",
    ]
    assert _metric(cluster, "repeated_evictions_total") == 2


@run_with(play)
async def test_27_broken_budget_is_counted_and_reported_and_a_kept_one_is_not(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    for number in (1, 2):
        cluster.pod(f"web{number}", cpu=2, on=f"n{number}", labels={"app": "web"})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    cluster.server.put({"kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": spec})
    await cluster.lead()
    await cluster.until(lambda: cluster.runs("web1") and cluster.runs("web2"))
    await cluster.sleep(5)
    cluster.pod("high0", cpu=2, priority=10)
    await cluster.until(lambda: cluster.where("high0"))
    assert _metric(cluster, "disruption_budgets_broken_total") == 0
    cluster.pod("high1", cpu=2, priority=10)
    await cluster.until(lambda: cluster.where("high1"))
    assert _metric(cluster, "disruption_budgets_broken_total") == 1
    told = [name for name in ("web1", "web2") if _notes(cluster, name, "DisruptionBudgetBroken")]
    assert len(told) == 1
    assert "default/budget" in _notes(cluster, told[0], "DisruptionBudgetBroken")[0]


@run_with(play)
async def test_while_a_gang_gathers_slowly_each_member_has_one_event(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    await cluster.lead()
    cluster.group("team", least=8)
    for number in range(7):
        cluster.pod(f"m{number}", group="team")
        await cluster.sleep(5)
    assert "7/8 members" in cluster.why("m0")
    assert [cluster.events(f"m{number}") for number in range(7)] == [["FailedScheduling"]] * 7


@run_with(play)
async def test_a_gang_whose_members_come_together_has_no_event_but_their_nodes(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    await cluster.lead()
    cluster.group("team", least=4)
    names = [f"m{number}" for number in range(4)]
    for name in names:
        cluster.pod(name, group="team")
        await cluster.sleep(0.1)
    await cluster.until(lambda: cluster.placed(*names) == 4)
    await cluster.sleep(30)
    assert [cluster.events(name) for name in names] == [["Scheduled"]] * 4


@run_with(play)
async def test_members_of_a_gang_that_finds_no_room_all_carry_the_gangs_reason(cluster: SimulatedCluster, /):
    for number in range(2):
        cluster.node(f"n{number}", cpu=2)
    await cluster.lead()
    cluster.group("team", least=3)
    names = [f"m{number}" for number in range(3)]
    for name in names:
        cluster.pod(name, cpu=2, group="team")
    await cluster.until(lambda: all(cluster.why(name) for name in names))
    reason = "gang default/team needs 1 more of its members placed: 0/2 nodes are available: 2 Insufficient cpu."
    assert {cluster.why(name) for name in names} == {reason}
    assert {note for name in names for note in _notes(cluster, name, "FailedScheduling")} == {reason}
    (group,) = cluster.server.objects("podgroups")
    assert [one["message"] for one in group["status"]["conditions"]] == [reason]


@run_with(play)
async def test_member_rejected_for_another_reason_reports_it_after_the_gangs(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    await cluster.lead()
    cluster.group("team", least=3)
    cluster.pod("fits", cpu=1, group="team")
    cluster.pod("big", cpu=8, group="team")
    cluster.pod("picky", cpu=1, group="team", nodeSelector={"disk": "ssd"})
    await cluster.until(lambda: all(cluster.why(name) for name in ("fits", "big", "picky")))
    reason = cluster.why("fits")
    assert reason.startswith("gang default/team needs 2 more of its members placed: 0/1 nodes are available: ")
    assert all(cluster.why(name).startswith(reason) for name in ("big", "picky"))
    others = {cluster.why(name).removeprefix(reason) for name in ("big", "picky")} - {""}
    assert len(others) == 1
    assert others.pop().startswith(" This pod: 0/1 nodes are available: 1 ")


@run_with(play)
async def test_a_victim_of_a_gang_learns_which_gang(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.pod("low", cpu=2, on="n1")
    await cluster.lead()
    await cluster.until(lambda: cluster.runs("low"))
    cluster.group("team", least=2, priority=10)
    for number in range(2):
        cluster.pod(f"m{number}", cpu=1, group="team", priority=10)
    await cluster.until(lambda: cluster.placed("m0", "m1") == 2)
    assert _notes(cluster, "low", "Preempted") == ["Preempted by gang default/team on node n1"]


@run_with(play)
async def test_a_pod_whose_bind_is_refused_learns_which_node_it_was_meant_for(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    leader.script.next("binding", refused(403, "Forbidden", "no way"), about="a")
    cluster.pod("a")
    await cluster.until(lambda: cluster.where("a") == "n1")
    (note,) = _notes(cluster, "a", "FailedScheduling")
    assert note.startswith("binding to node n1 failed: ")
    assert "no way" in note
