"""Faults 24 to 28 of the catalogue: slow victims, stolen room, loops, budgets, non-preempting pods."""

from hostler.model import PreemptionRules
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import failed_after, lost, refused
from tests.kube.faults.simulated_cluster import OURS, SECOND, SimulatedCluster, play

MINUTE = 60 * SECOND


def _leaves(cluster, name):
    """Return whether a pod is being deleted."""
    pod = cluster.server.get("pods", name)
    return pod is None or pod["metadata"].get("deletionTimestamp") is not None


def _budget(cluster, least, label):
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": label}}}
    cluster.server.put({"kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": spec})


@run_with(play)
async def test_24_preemptor_waits_for_graceful_victim_and_takes_no_second(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    cluster.pod("v1", cpu=2, on="n1", grace_s=100)
    cluster.pod("v2", cpu=2, on="n2", priority=5, grace_s=100)
    await cluster.lead()
    await cluster.until(lambda: cluster.runs("v1") and cluster.runs("v2"))
    cluster.pod("high", cpu=2, priority=10)
    await cluster.until(lambda: cluster.nominated("high") == "n1")
    await cluster.sleep(60)
    assert _leaves(cluster, "v1")
    assert not _leaves(cluster, "v2")
    cluster.server.delete("pods", "v1", grace_s=0)
    await cluster.until(lambda: cluster.where("high") == "n1")
    assert len(cluster.requests("delete")) == 1


@run_with(play, kubelet=False, rules=PreemptionRules(wait_ns=2 * MINUTE))
async def test_24_victim_that_never_ends_is_given_up_and_another_node_is_tried(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    cluster.pod("immortal", cpu=2, on="n1", grace_s=30)
    cluster.pod("v2", cpu=2, on="n2", priority=5, grace_s=30)
    await cluster.lead()
    begun = cluster.now()
    cluster.pod("high", cpu=2, priority=10)
    await cluster.until(lambda: _leaves(cluster, "immortal"))
    await cluster.until(lambda: _leaves(cluster, "v2"), within_s=600)
    assert cluster.now() - begun >= 2 * MINUTE
    cluster.server.delete("pods", "v2", grace_s=0)
    await cluster.until(lambda: cluster.where("high") == "n2")


@run_with(play)
async def test_24_eviction_without_answer_is_sent_once_and_forbidden_is_given_up(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    cluster.pod("guarded", cpu=2, on="n1")
    cluster.pod("v2", cpu=2, on="n2", priority=5)
    leader = await cluster.lead()
    await cluster.until(lambda: cluster.runs("guarded") and cluster.runs("v2"))
    leader.script.next("delete", refused(403, "Forbidden", "a webhook guards this pod"), about="guarded", times=None)
    leader.script.next("delete", lost(), about="v2")
    leader.script.next("delete", failed_after(500), about="v2")
    cluster.pod("high", cpu=2, priority=10)
    await cluster.until(lambda: cluster.where("high") == "n2")
    assert cluster.where("guarded") == "n1"


@run_with(play)
async def test_24_a_preemption_goes_on_after_a_crash_without_a_second_victim(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    cluster.pod("v1", cpu=2, on="n1", grace_s=100)
    cluster.pod("v2", cpu=2, on="n2", priority=5, grace_s=100)
    first = await cluster.lead("first")
    await cluster.until(lambda: cluster.runs("v1") and cluster.runs("v2"))
    cluster.pod("high", cpu=2, priority=10)
    await cluster.until(lambda: cluster.nominated("high") == "n1")
    await cluster.until(lambda: _leaves(cluster, "v1"))
    await cluster.crash(first)
    cluster.server.delete("pods", "v2", grace_s=0)
    cluster.pod("cheaper", cpu=2, on="n2", priority=-10, grace_s=100)
    await cluster.lead("second")
    await cluster.until(lambda: cluster.where("high"), within_s=300)
    assert len(cluster.requests("delete")) == 1


@run_with(play)
async def test_25_room_that_victims_leave_is_kept_from_pods_of_the_same_priority(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=3)
    cluster.pod("victim", cpu=2, on="n1", grace_s=30)
    await cluster.lead()
    await cluster.until(lambda: cluster.runs("victim"))
    cluster.pod("high", cpu=3, priority=10)
    await cluster.until(lambda: cluster.nominated("high") == "n1")
    for number in range(3):  # each would fit beside the victim, now
        cluster.pod(f"equal{number}", cpu=1, priority=10)
        cluster.pod(f"low{number}", cpu=1, priority=1)
    await cluster.until(lambda: cluster.where("high") == "n1")
    assert cluster.placed(*(f"{kind}{number}" for kind in ("equal", "low") for number in range(3))) == 0


@run_with(play)
async def test_25_higher_priority_pod_may_take_the_room_without_eviction_storm(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.pod("victim", cpu=2, on="n1", grace_s=30)
    await cluster.lead()
    await cluster.until(lambda: cluster.runs("victim"))
    cluster.pod("high", cpu=2, priority=10)
    await cluster.until(lambda: cluster.nominated("high") == "n1")
    cluster.pod("boss", cpu=2, priority=100)
    await cluster.until(lambda: cluster.where("boss") == "n1")
    await cluster.until(lambda: not cluster.nominated("high"))
    begun = cluster.now()
    await cluster.sleep(600)
    assert cluster.requests("delete", since=begun) == []
    assert len(cluster.requests("delete")) == 1
    assert "Insufficient cpu" in cluster.why("high")


@run_with(play, rules=PreemptionRules(max_evictions=2, max_repeats=100))
async def test_25_preemptor_whose_room_is_stolen_stays_within_its_budget(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.pod("thief0", cpu=2, on="n1", scheduler="other")
    await cluster.lead()
    count = [0]
    _put_back(cluster, "thief", count)
    await cluster.until(lambda: cluster.runs("thief0"))
    cluster.pod("high", cpu=2, priority=10)
    await cluster.sleep(500)
    assert 1 <= len([entry for entry in cluster.requests("delete") if entry.status == 200]) <= 2
    assert not cluster.where("high")


def _put_back(cluster, prefix, count, node="n1", **more):
    """Let another scheduler replace every deleted pod of a kind at once and in the same place."""

    def notice(change) -> None:
        if change.kind.plural == "pods" and change.type == "DELETED" and change.key[1].startswith(prefix):
            count[0] += 1
            cluster.pod(f"{prefix}{count[0]}", cpu=2, on=node, scheduler="other", **more)

    cluster.server.store.listen(notice)


@run_with(play)
async def test_26_victims_that_keep_coming_back_are_left_alone(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    cluster.pod("zombie0", cpu=2, on="n1", scheduler="other")
    cluster.pod("v2", cpu=2, on="n2", priority=5, scheduler="other")
    await cluster.lead()
    count = [0]
    _put_back(cluster, "zombie", count)
    await cluster.until(lambda: cluster.runs("zombie0") and cluster.runs("v2"))
    cluster.pod("high", cpu=2, priority=10)
    await cluster.until(lambda: cluster.where("high") == "n2", within_s=500)
    assert 1 <= count[0] <= 3
    told = next(event for event in cluster.server.objects("events") if event["reason"] == "Preempted")
    assert told["reportingController"] == OURS, "it is not their own scheduler that ends them"


@run_with(play)
async def test_26_pod_whose_victims_always_return_says_so_and_evictions_end(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.pod("zombie0", cpu=2, on="n1", scheduler="other")
    await cluster.lead()
    count = [0]
    _put_back(cluster, "zombie", count)
    await cluster.until(lambda: cluster.runs("zombie0"))
    cluster.pod("high", cpu=2, priority=10)
    await cluster.until(lambda: count[0] == 3, within_s=500)
    await cluster.sleep(300)
    assert count[0] == 3
    assert "FailedScheduling" in cluster.events("high")
    assert cluster.why("high")


@run_with(play, rules=PreemptionRules(budgets="strict"))
async def test_27_strict_budgets_are_never_broken(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    for number in (1, 2):
        cluster.pod(f"web{number}", cpu=2, on=f"n{number}", labels={"app": "web"})
    _budget(cluster, 2, "web")
    await cluster.lead()
    await cluster.until(lambda: cluster.runs("web1") and cluster.runs("web2"))
    cluster.pod("high", cpu=2, priority=10)
    await cluster.sleep(400)
    assert cluster.requests("delete") == []
    assert cluster.why("high")
    cluster.server.change(
        "poddisruptionbudgets", "budget", lambda item: {**item, "spec": {**item["spec"], "minAvailable": 1}}
    )
    await cluster.until(lambda: cluster.where("high"), within_s=400)
    assert len(cluster.requests("delete")) == 1


@run_with(play, rules=PreemptionRules(budgets="strict"))
async def test_27_lagging_budget_status_is_not_overdrawn_by_two_preemptors(cluster: SimulatedCluster, /):
    for number in range(3):
        cluster.node(f"n{number}", cpu=2)
        cluster.pod(f"web{number}", cpu=2, on=f"n{number}", labels={"app": "web"}, grace_s=60)
    _budget(cluster, 2, "web")
    await cluster.lead()
    await cluster.until(lambda: all(cluster.runs(f"web{number}") for number in range(3)))
    await cluster.sleep(5)
    cluster.pod("high0", cpu=2, priority=10)
    cluster.pod("high1", cpu=2, priority=10)
    await cluster.sleep(300)
    assert len(cluster.requests("delete")) == 1, "one disruption was allowed"
    assert cluster.placed("high0", "high1") == 1


@run_with(play)
async def test_27_pod_without_budget_is_evicted_first_and_breach_is_reported(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    cluster.pod("web", cpu=2, on="n1", labels={"app": "web"})
    cluster.pod("free", cpu=2, on="n2", labels={"app": "free"}, priority=5)
    _budget(cluster, 1, "web")
    await cluster.lead()
    await cluster.until(lambda: cluster.runs("web") and cluster.runs("free"))
    cluster.pod("high0", cpu=2, priority=10)
    await cluster.until(lambda: cluster.where("high0") == "n2")
    assert not _leaves(cluster, "web")
    cluster.pod("high1", cpu=2, priority=10)
    await cluster.until(lambda: cluster.where("high1") == "n1")
    assert sorted(cluster.events("web")) == ["DisruptionBudgetBroken", "Preempted"]


@run_with(play)
async def test_28_non_preempting_pod_goes_first_but_evicts_and_blocks_none(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("small", cpu=1)
    cluster.pod("runs", cpu=2, on="n1")
    await cluster.lead()
    cluster.pod("patient", cpu=2, priority=1000, preemptionPolicy="Never")
    await cluster.until(lambda: cluster.why("patient"))
    cluster.pod("little", cpu=1)
    await cluster.until(lambda: cluster.where("little") == "small")
    cluster.pod("later", cpu=2)
    await cluster.until(lambda: cluster.why("later"))
    await cluster.sleep(400)
    assert cluster.requests("delete") == []
    cluster.server.delete("pods", "runs")
    await cluster.until(lambda: cluster.where("patient") == "n1")
    assert not cluster.where("later")
