"""What owners of pods are told while things go wrong: the events and the numbers of the catalogue, and no more."""

from hostler.kube.service.collector import metrics_text
from hostler.kube.service.numbers import Numbers
from tests.kube.faults.script import just_before, refused
from tests.kube.faults.stage import Stage, play


def _metric(stage: Stage, name: str) -> float:
    text = metrics_text(stage.actors[-1].scheduler, stage.clock, Numbers(), None).decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"hostler_{name} "))


def _notes(stage: Stage, pod: str, reason: str) -> list[str]:
    events = stage.server.objects("events")
    return [event["note"] for event in events if event["regarding"]["name"] == pod and event["reason"] == reason]


def test_13_a_bind_to_a_node_that_just_went_is_counted():
    async def story(stage: Stage) -> None:
        stage.node("doomed", cpu=8)
        leader = await stage.lead()
        stage.pod("calm")
        await stage.until(lambda: stage.where("calm") == "doomed")
        await stage.sleep(60)
        leader.script.next("binding", just_before(lambda: stage.server.delete("nodes", "doomed", "")), about="web")
        stage.pod("web")
        await stage.until(lambda: stage.where("web") == "doomed")
        await stage.until(lambda: _metric(stage, "binds_to_vanished_nodes_total") == 1)
        await stage.sleep(60)
        assert _metric(stage, "binds_to_vanished_nodes_total") == 1

    play(story, collect_s=20.0)


def test_13_a_node_that_goes_right_after_a_bind_that_was_fine_is_no_bind_to_nothing():
    async def story(stage: Stage) -> None:
        stage.node("doomed", cpu=8)
        await stage.lead()
        stage.pod("web")
        await stage.until(lambda: stage.where("web"))
        await stage.sleep(0.1)
        stage.server.delete("nodes", "doomed", "")
        await stage.sleep(60)
        assert _metric(stage, "binds_to_vanished_nodes_total") == 0

    play(story, collect_s=20.0)


def test_13_a_bind_whose_answer_comes_after_the_end_of_its_node_was_seen_is_counted_once():
    async def story(stage: Stage) -> None:
        stage.node("doomed", cpu=8)
        leader = await stage.lead()

        async def gone_first(script, request):
            stage.server.delete("nodes", "doomed", "")
            await stage.sleep(1)
            return await script.deliver(request)

        leader.script.next("binding", gone_first, about="web")
        stage.pod("web")
        await stage.until(lambda: stage.where("web") == "doomed")
        await stage.sleep(60)
        assert _metric(stage, "binds_to_vanished_nodes_total") == 1

    play(story, collect_s=20.0)


def test_23_a_gang_that_waits_too_long_for_members_is_told_so_once():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        await stage.lead()
        stage.group("team", least=3)
        stage.pod("m0", group="team")
        stage.pod("m1", group="team")
        await stage.sleep(200)
        assert _metric(stage, "gang_wait_timeouts_total") == 0
        await stage.until(lambda: stage.events("m0") == ["FailedScheduling", "GangWaitTimeout"], within_s=200)
        assert "2/3 members of gang default/team" in _notes(stage, "m1", "GangWaitTimeout")[0]
        await stage.sleep(900)
        assert _metric(stage, "gang_wait_timeouts_total") == 1
        assert len(stage.events("m0")) == 2
        stage.pod("m2", group="team")
        await stage.until(lambda: stage.placed("m0", "m1", "m2") == 3)

    play(story)


def test_23_a_gang_that_is_complete_in_time_is_never_told_that_it_waited():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        await stage.lead()
        stage.group("team", least=2)
        stage.pod("m0", group="team")
        await stage.sleep(100)
        stage.pod("m1", group="team")
        await stage.until(lambda: stage.placed("m0", "m1") == 2)
        await stage.sleep(900)
        assert _metric(stage, "gang_wait_timeouts_total") == 0
        assert stage.events("m1") == ["Scheduled"]

    play(story)


def test_26_that_victims_keep_coming_back_is_told_to_the_pod_that_wants_their_room():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.pod("zombie0", cpu=2, on="n1", scheduler="other")
        await stage.lead()
        count = [0]

        def put_back(change) -> None:
            if change.kind.plural == "pods" and change.type == "DELETED":
                count[0] += 1
                stage.pod(f"zombie{count[0]}", cpu=2, on="n1", scheduler="other")

        stage.server.store.listen(put_back)
        await stage.until(lambda: stage.runs("zombie0"))
        stage.pod("high", cpu=2, priority=10)
        await stage.until(lambda: count[0] == 3, within_s=500)
        await stage.sleep(100)
        assert [note.split("(")[1][:7] for note in _notes(stage, "high", "PreemptionRepeated")] == [
            "2 times",
            "3 times",
        ]
        assert _metric(stage, "repeated_evictions_total") == 2

    play(story)


def test_27_a_budget_that_is_broken_is_counted_and_told_and_one_that_is_kept_is_not():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        for number in (1, 2):
            stage.pod(f"web{number}", cpu=2, on=f"n{number}", labels={"app": "web"})
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        stage.server.put({"kind": "PodDisruptionBudget", "metadata": {"name": "budget"}, "spec": spec})
        await stage.lead()
        await stage.until(lambda: stage.runs("web1") and stage.runs("web2"))
        await stage.sleep(5)
        stage.pod("high0", cpu=2, priority=10)
        await stage.until(lambda: stage.where("high0"))
        assert _metric(stage, "disruption_budgets_broken_total") == 0
        stage.pod("high1", cpu=2, priority=10)
        await stage.until(lambda: stage.where("high1"))
        assert _metric(stage, "disruption_budgets_broken_total") == 1
        told = [name for name in ("web1", "web2") if _notes(stage, name, "DisruptionBudgetBroken")]
        assert len(told) == 1
        assert "default/budget" in _notes(stage, told[0], "DisruptionBudgetBroken")[0]

    play(story)


def test_while_a_gang_gathers_slowly_each_member_has_one_event():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        await stage.lead()
        stage.group("team", least=8)
        for number in range(7):
            stage.pod(f"m{number}", group="team")
            await stage.sleep(5)
        assert "7/8 members" in stage.why("m0")
        assert [stage.events(f"m{number}") for number in range(7)] == [["FailedScheduling"]] * 7

    play(story)


def test_a_gang_whose_members_come_together_has_no_event_but_their_nodes():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        await stage.lead()
        stage.group("team", least=4)
        names = [f"m{number}" for number in range(4)]
        for name in names:
            stage.pod(name, group="team")
            await stage.sleep(0.1)
        await stage.until(lambda: stage.placed(*names) == 4)
        await stage.sleep(30)
        assert [stage.events(name) for name in names] == [["Scheduled"]] * 4

    play(story)


def test_members_of_a_gang_that_finds_no_room_all_carry_the_gangs_reason():
    async def story(stage: Stage) -> None:
        for number in range(2):
            stage.node(f"n{number}", cpu=2)
        await stage.lead()
        stage.group("team", least=3)
        names = [f"m{number}" for number in range(3)]
        for name in names:
            stage.pod(name, cpu=2, group="team")
        await stage.until(lambda: all(stage.why(name) for name in names))
        reason = "gang default/team needs 1 more of its members placed: 0/2 nodes are available: 2 Insufficient cpu."
        assert {stage.why(name) for name in names} == {reason}
        assert {note for name in names for note in _notes(stage, name, "FailedScheduling")} == {reason}
        (group,) = stage.server.objects("podgroups")
        assert [one["message"] for one in group["status"]["conditions"]] == [reason]

    play(story)


def test_a_member_that_is_refused_for_another_reason_says_so_after_the_gangs():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        await stage.lead()
        stage.group("team", least=3)
        stage.pod("fits", cpu=1, group="team")
        stage.pod("big", cpu=8, group="team")
        stage.pod("picky", cpu=1, group="team", nodeSelector={"disk": "ssd"})
        await stage.until(lambda: all(stage.why(name) for name in ("fits", "big", "picky")))
        reason = stage.why("fits")
        assert reason.startswith("gang default/team needs 2 more of its members placed: 0/1 nodes are available: ")
        assert all(stage.why(name).startswith(reason) for name in ("big", "picky"))
        others = {stage.why(name).removeprefix(reason) for name in ("big", "picky")} - {""}
        assert len(others) == 1
        assert others.pop().startswith(" This pod: 0/1 nodes are available: 1 ")

    play(story)


def test_a_victim_of_a_gang_is_told_which_gang():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.pod("low", cpu=2, on="n1")
        await stage.lead()
        await stage.until(lambda: stage.runs("low"))
        stage.group("team", least=2, priority=10)
        for number in range(2):
            stage.pod(f"m{number}", cpu=1, group="team", priority=10)
        await stage.until(lambda: stage.placed("m0", "m1") == 2)
        assert _notes(stage, "low", "Preempted") == ["Preempted by gang default/team on node n1"]

    play(story)


def test_a_pod_whose_bind_is_refused_is_told_which_node_it_was_meant_for():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        leader.script.next("binding", refused(403, "Forbidden", "no way"), about="a")
        stage.pod("a")
        await stage.until(lambda: stage.where("a") == "n1")
        (note,) = _notes(stage, "a", "FailedScheduling")
        assert note.startswith("binding to node n1 failed: ")
        assert "no way" in note

    play(story)
