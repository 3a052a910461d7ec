"""Faults 24 to 28 of the catalogue: victims that stay, room that is stolen, loops, budgets, pods that never evict."""

from hostler.model import PreemptionRules
from tests.kube.faults.script import failed_after, lost, refused
from tests.kube.faults.stage import OURS, SECOND, Stage, play

MINUTE = 60 * SECOND


def _leaves(stage, name):
    """Say whether a pod was told to end."""
    pod = stage.server.get("pods", name)
    return pod is None or pod["metadata"].get("deletionTimestamp") is not None


def _budget(stage, least, label):
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": label}}}
    stage.server.put({"kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": spec})


def test_24_a_preemptor_waits_for_a_victim_with_a_long_grace_period_and_takes_no_second_one():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        stage.pod("v1", cpu=2, on="n1", grace_s=100)
        stage.pod("v2", cpu=2, on="n2", priority=5, grace_s=100)
        await stage.lead()
        await stage.until(lambda: stage.runs("v1") and stage.runs("v2"))
        stage.pod("high", cpu=2, priority=10)
        await stage.until(lambda: stage.nominated("high") == "n1")
        await stage.sleep(60)
        assert _leaves(stage, "v1")
        assert not _leaves(stage, "v2")
        stage.server.delete("pods", "v1", grace_s=0)
        await stage.until(lambda: stage.where("high") == "n1")
        assert len(stage.requests("delete")) == 1

    play(story)


def test_24_a_victim_that_never_dies_is_given_up_after_a_while_and_another_node_is_tried():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        stage.pod("immortal", cpu=2, on="n1", grace_s=30)
        stage.pod("v2", cpu=2, on="n2", priority=5, grace_s=30)
        await stage.lead()
        begun = stage.now()
        stage.pod("high", cpu=2, priority=10)
        await stage.until(lambda: _leaves(stage, "immortal"))
        await stage.until(lambda: _leaves(stage, "v2"), within_s=600)
        assert stage.now() - begun >= 2 * MINUTE
        stage.server.delete("pods", "v2", grace_s=0)
        await stage.until(lambda: stage.where("high") == "n2")

    play(story, kubelet=False, rules=PreemptionRules(wait_ns=2 * MINUTE))


def test_24_an_eviction_whose_answer_is_lost_is_made_once_and_one_that_is_forbidden_is_given_up():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        stage.pod("guarded", cpu=2, on="n1")
        stage.pod("v2", cpu=2, on="n2", priority=5)
        leader = await stage.lead()
        await stage.until(lambda: stage.runs("guarded") and stage.runs("v2"))
        leader.script.next(
            "delete", refused(403, "Forbidden", "a webhook guards this pod"), about="guarded", times=None
        )
        leader.script.next("delete", lost(), about="v2")
        leader.script.next("delete", failed_after(500), about="v2")
        stage.pod("high", cpu=2, priority=10)
        await stage.until(lambda: stage.where("high") == "n2")
        assert stage.where("guarded") == "n1"

    play(story)


def test_24_a_preemption_goes_on_after_a_crash_without_a_second_victim():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        stage.pod("v1", cpu=2, on="n1", grace_s=100)
        stage.pod("v2", cpu=2, on="n2", priority=5, grace_s=100)
        first = await stage.lead("first")
        await stage.until(lambda: stage.runs("v1") and stage.runs("v2"))
        stage.pod("high", cpu=2, priority=10)
        await stage.until(lambda: stage.nominated("high") == "n1")
        await stage.until(lambda: _leaves(stage, "v1"))
        await stage.crash(first)
        stage.server.delete("pods", "v2", grace_s=0)
        stage.pod("cheaper", cpu=2, on="n2", priority=-10, grace_s=100)
        await stage.lead("second")
        await stage.until(lambda: stage.where("high"), within_s=300)
        assert len(stage.requests("delete")) == 1

    play(story)


def test_25_room_that_victims_leave_is_kept_from_pods_of_the_same_priority():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=3)
        stage.pod("victim", cpu=2, on="n1", grace_s=30)
        await stage.lead()
        await stage.until(lambda: stage.runs("victim"))
        stage.pod("high", cpu=3, priority=10)
        await stage.until(lambda: stage.nominated("high") == "n1")
        for number in range(3):  # each would fit beside the victim, now
            stage.pod(f"equal{number}", cpu=1, priority=10)
            stage.pod(f"low{number}", cpu=1, priority=1)
        await stage.until(lambda: stage.where("high") == "n1")
        assert stage.placed(*(f"{kind}{number}" for kind in ("equal", "low") for number in range(3))) == 0

    play(story)


def test_25_a_pod_of_higher_priority_may_take_it_and_the_preemptor_gives_up_its_nomination_without_a_storm():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.pod("victim", cpu=2, on="n1", grace_s=30)
        await stage.lead()
        await stage.until(lambda: stage.runs("victim"))
        stage.pod("high", cpu=2, priority=10)
        await stage.until(lambda: stage.nominated("high") == "n1")
        stage.pod("boss", cpu=2, priority=100)
        await stage.until(lambda: stage.where("boss") == "n1")
        await stage.until(lambda: not stage.nominated("high"))
        begun = stage.now()
        await stage.sleep(600)
        assert stage.requests("delete", since=begun) == []
        assert len(stage.requests("delete")) == 1
        assert "Insufficient cpu" in stage.why("high")

    play(story)


def test_25_a_preemptor_whose_room_is_stolen_again_and_again_evicts_no_more_than_its_budget():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.pod("thief0", cpu=2, on="n1", scheduler="other")
        await stage.lead()
        count = [0]
        _put_back(stage, "thief", count)
        await stage.until(lambda: stage.runs("thief0"))
        stage.pod("high", cpu=2, priority=10)
        await stage.sleep(500)
        assert 1 <= len([entry for entry in stage.requests("delete") if entry.status == 200]) <= 2
        assert not stage.where("high")

    play(story, rules=PreemptionRules(max_evictions=2, max_repeats=100))


def _put_back(stage, prefix, count, node="n1", **more):
    """Let another scheduler replace every pod of a kind that goes, at once and at the same place."""

    def notice(change) -> None:
        if change.kind.plural == "pods" and change.type == "DELETED" and change.key[1].startswith(prefix):
            count[0] += 1
            stage.pod(f"{prefix}{count[0]}", cpu=2, on=node, scheduler="other", **more)

    stage.server.store.listen(notice)


def test_26_victims_that_keep_coming_back_are_left_alone_and_another_node_is_tried():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        stage.pod("zombie0", cpu=2, on="n1", scheduler="other")
        stage.pod("v2", cpu=2, on="n2", priority=5, scheduler="other")
        await stage.lead()
        count = [0]
        _put_back(stage, "zombie", count)
        await stage.until(lambda: stage.runs("zombie0") and stage.runs("v2"))
        stage.pod("high", cpu=2, priority=10)
        await stage.until(lambda: stage.where("high") == "n2", within_s=500)
        assert 1 <= count[0] <= 3
        told = next(event for event in stage.server.objects("events") if event["reason"] == "Preempted")
        assert told["reportingController"] == OURS, "it is not their own scheduler that ends them"

    play(story)


def test_26_a_pod_whose_victims_always_come_back_says_so_and_the_evictions_end():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.pod("zombie0", cpu=2, on="n1", scheduler="other")
        await stage.lead()
        count = [0]
        _put_back(stage, "zombie", count)
        await stage.until(lambda: stage.runs("zombie0"))
        stage.pod("high", cpu=2, priority=10)
        await stage.until(lambda: count[0] == 3, within_s=500)
        await stage.sleep(300)
        assert count[0] == 3
        assert "FailedScheduling" in stage.events("high")
        assert stage.why("high")

    play(story)


def test_27_strict_budgets_are_never_broken():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        for number in (1, 2):
            stage.pod(f"web{number}", cpu=2, on=f"n{number}", labels={"app": "web"})
        _budget(stage, 2, "web")
        await stage.lead()
        await stage.until(lambda: stage.runs("web1") and stage.runs("web2"))
        stage.pod("high", cpu=2, priority=10)
        await stage.sleep(400)
        assert stage.requests("delete") == []
        assert stage.why("high")
        stage.server.change(
            "poddisruptionbudgets", "budget", lambda item: {**item, "spec": {**item["spec"], "minAvailable": 1}}
        )
        await stage.until(lambda: stage.where("high"), within_s=400)
        assert len(stage.requests("delete")) == 1

    play(story, rules=PreemptionRules(budgets="strict"))


def test_27_a_budget_whose_status_lags_behind_is_not_overdrawn_by_two_preemptors_at_once():
    async def story(stage: Stage) -> None:
        for number in range(3):
            stage.node(f"n{number}", cpu=2)
            stage.pod(f"web{number}", cpu=2, on=f"n{number}", labels={"app": "web"}, grace_s=60)
        _budget(stage, 2, "web")
        await stage.lead()
        await stage.until(lambda: all(stage.runs(f"web{number}") for number in range(3)))
        await stage.sleep(5)
        stage.pod("high0", cpu=2, priority=10)
        stage.pod("high1", cpu=2, priority=10)
        await stage.sleep(300)
        assert len(stage.requests("delete")) == 1, "one disruption was allowed"
        assert stage.placed("high0", "high1") == 1

    play(story, rules=PreemptionRules(budgets="strict"))


def test_27_where_budgets_are_kept_if_possible_a_pod_without_one_goes_first_and_a_breach_is_told():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        stage.pod("web", cpu=2, on="n1", labels={"app": "web"})
        stage.pod("free", cpu=2, on="n2", labels={"app": "free"}, priority=5)
        _budget(stage, 1, "web")
        await stage.lead()
        await stage.until(lambda: stage.runs("web") and stage.runs("free"))
        stage.pod("high0", cpu=2, priority=10)
        await stage.until(lambda: stage.where("high0") == "n2")
        assert not _leaves(stage, "web")
        stage.pod("high1", cpu=2, priority=10)
        await stage.until(lambda: stage.where("high1") == "n1")
        assert sorted(stage.events("web")) == ["DisruptionBudgetBroken", "Preempted"]

    play(story)


def test_28_a_pod_that_may_not_evict_goes_first_but_ends_nobody_and_blocks_nobody():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("small", cpu=1)
        stage.pod("runs", cpu=2, on="n1")
        await stage.lead()
        stage.pod("patient", cpu=2, priority=1000, preemptionPolicy="Never")
        await stage.until(lambda: stage.why("patient"))
        stage.pod("little", cpu=1)
        await stage.until(lambda: stage.where("little") == "small")
        stage.pod("later", cpu=2)
        await stage.until(lambda: stage.why("later"))
        await stage.sleep(400)
        assert stage.requests("delete") == []
        stage.server.delete("pods", "runs")
        await stage.until(lambda: stage.where("patient") == "n1")
        assert not stage.where("later")

    play(story)
