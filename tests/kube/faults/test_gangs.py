"""Faults 20 to 23 and 34 of the catalogue: gangs that lose members, change their size, collide, or are not served."""

import pytest

from hostler.kube.settings import GangRules, Limits
from tests.kube.faults.script import throttled
from tests.kube.faults.stage import SECOND, Stage, play

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


def _members(stage, group, count, cpu=1, **more):
    names = [f"{group}-{number}" for number in range(count)]
    for name in names:
        stage.pod(name, cpu=cpu, group=group, **more)
    return names


def _resize(stage, group, least):
    policy = {"gang": {"minCount": least}}
    stage.server.change("podgroups", group, lambda item: {**item, "spec": {**item["spec"], "schedulingPolicy": policy}})


def _bound_at(stage, name):
    """Return when a pod got its node, by the server's history."""
    return next(
        change.time
        for change in stage.server.history
        if change.kind.plural == "pods" and change.key[1] == name and change.entry.item["spec"].get("nodeName")
    )


def test_20_a_gang_that_loses_a_member_while_its_binds_wait_starts_nobody():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        leader = await stage.lead()
        stage.group("team", least=3)
        line = leader.script.next("binding", throttled(10))
        names = _members(stage, "team", 3, cpu=2)
        await stage.until(lambda: line.played)
        stage.server.delete("pods", names[1])
        await stage.sleep(60)
        assert stage.placed(*names) == 0, "two of three were never meant to run"
        await stage.until(lambda: "2/3 members" in stage.why(names[0]))
        stage.pod("other", cpu=8)
        await stage.until(lambda: stage.where("other") == "n1")

    play(story, limits=Limits(max_in_flight=1))


def test_20_a_gang_that_loses_a_member_while_it_waits_holds_nothing():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        await stage.lead()
        stage.group("team", least=3)
        names = _members(stage, "team", 3)
        await stage.until(lambda: stage.why(names[0]))
        stage.server.delete("pods", names[2])
        await stage.until(lambda: "2/3 members" in stage.why(names[0]))
        stage.pod("other", cpu=2)
        await stage.until(lambda: stage.where("other") == "n1")

    play(story)


def test_20_a_running_gang_that_loses_a_member_is_released_after_its_time_when_its_rule_says_so():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        await stage.lead()
        stage.group("team", least=3)
        names = _members(stage, "team", 3)
        await stage.until(lambda: stage.placed(*names) == 3)
        stage.server.delete("pods", names[0])
        begun = stage.now()
        await stage.sleep(20)
        assert stage.placed(*names) == 2
        await stage.until(lambda: stage.server.get("pods", names[1]) is None)
        assert 30 * SECOND <= stage.now() - begun < 45 * SECOND

    play(story, gangs=GangRules(when_broken="release_after", release_after_s=30.0))


def test_20_a_running_gang_keeps_what_it_has_when_its_rule_says_so_and_is_filled_up():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        await stage.lead()
        stage.group("team", least=3)
        names = _members(stage, "team", 3)
        await stage.until(lambda: stage.placed(*names) == 3)
        stage.server.delete("pods", names[0])
        await stage.sleep(120)
        assert stage.placed(*names) == 2
        stage.pod("team-new", group="team")
        await stage.until(lambda: stage.where("team-new") == "n1")

    play(story)


def test_21_a_minimum_that_is_lowered_wakes_the_group():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        await stage.lead()
        stage.group("team", least=3)
        names = _members(stage, "team", 3)
        await stage.until(lambda: stage.why(names[0]))
        _resize(stage, "team", 2)
        await stage.until(lambda: stage.placed(*names) == 2)

    play(story)


def test_21_a_minimum_that_is_lowered_to_those_who_are_there_lets_them_run():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        await stage.lead()
        stage.group("team", least=4)
        names = _members(stage, "team", 2)
        await stage.until(lambda: "2/4 members" in stage.why(names[0]))
        _resize(stage, "team", 2)
        await stage.until(lambda: stage.placed(*names) == 2)

    play(story)


def test_21_a_minimum_that_is_raised_while_the_group_waits_counts_from_the_next_try():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=1)
        await stage.lead()
        stage.group("team", least=2)
        names = _members(stage, "team", 3)
        await stage.until(lambda: stage.why(names[0]))
        _resize(stage, "team", 3)
        await stage.sleep(1)
        stage.change_node("n1", cpu=2)
        await stage.sleep(60)
        assert stage.placed(*names) == 0
        stage.change_node("n1", cpu=3)
        await stage.until(lambda: stage.placed(*names) == 3)

    play(story)


def test_21_a_minimum_that_is_raised_during_a_cycle_does_not_undo_it():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        leader = await stage.lead()
        stage.group("team", least=2)
        line = leader.script.next("binding", throttled(5))
        names = _members(stage, "team", 2)
        await stage.until(lambda: line.played)
        _resize(stage, "team", 3)
        await stage.until(lambda: stage.placed(*names) == 2)
        stage.pod("team-late", group="team")
        await stage.until(lambda: stage.where("team-late") == "n1")

    play(story)


def test_21_a_member_that_comes_late_joins_its_running_gang():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        leader = await stage.lead()
        stage.group("team", least=2)
        line = leader.script.next("binding", throttled(5))
        names = _members(stage, "team", 2)
        await stage.until(lambda: line.played)
        stage.pod("team-late", group="team")
        await stage.until(lambda: stage.placed(*names, "team-late") == 3)

    play(story)


@pytest.mark.parametrize(("first", "second", "winner"), [(0, 0, "old"), (0, 10, "young"), (10, 0, "old")])
def test_22_of_two_gangs_that_need_more_than_half_one_runs_and_the_other_holds_nothing(first, second, winner):
    async def story(stage: Stage) -> None:
        stage.node("big", cpu=8)
        stage.pod("block", cpu=4, on="big", priority=100)
        stage.group("old", least=3, priority=first)
        stage.group("young", least=3, priority=second)
        await stage.lead()
        names = {"old": _members(stage, "old", 3, cpu=2, priority=first)}
        await stage.sleep(2)
        names["young"] = _members(stage, "young", 3, cpu=2, priority=second)
        await stage.until(lambda: stage.why("old-0") and stage.why("young-0"))
        await stage.sleep(60)  # neither is held back by a backoff when there is room
        stage.server.delete("pods", "block")
        await stage.until(lambda: stage.placed(*names[winner]) == 3)
        loser = "young" if winner == "old" else "old"
        begun = stage.now()
        await stage.sleep(1000)  # a hundred tries at the longest backoff
        assert stage.placed(*names[loser]) == 0
        assert stage.placed(*names[winner]) == 3
        assert stage.requests("delete", since=begun) == []
        stage.pod("small", cpu=2)
        await stage.until(lambda: stage.where("small") == "big")

    play(story)


def test_22_the_loser_runs_when_the_winner_has_ended():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        stage.group("a", least=3)
        stage.group("b", least=3)
        await stage.lead()
        names = [*_members(stage, "a", 3), *_members(stage, "b", 3)]
        await stage.until(lambda: stage.placed(*names) == 3)
        winner = "a" if stage.where("a-0") else "b"
        for number in range(3):
            stage.server.delete("pods", f"{winner}-{number}")
        loser = "b" if winner == "a" else "a"
        await stage.until(lambda: stage.placed(*(f"{loser}-{number}" for number in range(3))) == 3)

    play(story)


def test_23_a_gang_without_its_quorum_is_gated_says_so_and_holds_nothing():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        leader = await stage.lead()
        stage.group("team", least=4)
        names = _members(stage, "team", 2)
        await stage.until(lambda: all("2/4 members" in stage.why(name) for name in names))
        assert "FailedScheduling" in stage.events(names[0])
        engine = leader.scheduler.core.engine
        assert {engine.decision(stage.uid(name)).state for name in names} == {"gated"}
        assert not engine.view.queue_length
        stage.pod("other", cpu=4)
        await stage.until(lambda: stage.where("other") == "n1")
        begun = stage.now()
        await stage.sleep(900)
        writes = [
            entry for entry in stage.requests(since=begun) if entry.method != "GET" and "/leases" not in entry.path
        ]
        assert len(writes) < 5, "a gang that waits for members costs nothing"
        assert stage.placed(*names) == 0

    play(story)


def test_34_pods_of_a_group_whose_api_is_missing_wait_with_a_reason_until_it_is_served():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        leader = await stage.lead()
        names = ["m0", "m1"]
        for name in names:
            stage.pod(name, labels={GROUP_LABEL: "team"})
        stage.pod("single")
        await stage.until(lambda: stage.where("single") == "n1")
        await stage.until(lambda: all("gang default/team is not known yet" in stage.why(name) for name in names))
        assert leader.scheduler.reflectors["PodGroupscheduling.x-k8s.io"].is_absent
        stage.server.put(DEFINITION)
        stage.server.put({"kind": "PodGroup", "metadata": {"name": "team"}, "spec": {"minMember": 2}})
        await stage.until(lambda: stage.placed(*names) == 2)
        assert not leader.scheduler.reflectors["PodGroupscheduling.x-k8s.io"].is_absent

    play(story, without=("scheduling.k8s.io/v1beta1",))


def test_34_a_definition_that_is_deleted_under_live_pods_ends_nobody_and_new_members_wait():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=4)
        stage.server.put(DEFINITION)
        stage.server.put({"kind": "PodGroup", "metadata": {"name": "team"}, "spec": {"minMember": 2}})
        leader = await stage.lead()
        for name in ("m0", "m1"):
            stage.pod(name, labels={GROUP_LABEL: "team"})
        await stage.until(lambda: stage.placed("m0", "m1") == 2)

        stage.server.delete("podgroups", "team")  # the real server deletes the objects first
        stage.server.delete("customresourcedefinitions", "podgroups.scheduling.x-k8s.io", "")
        await stage.until(lambda: leader.scheduler.reflectors["PodGroupscheduling.x-k8s.io"].is_absent, within_s=900)
        stage.pod("late", labels={GROUP_LABEL: "team"})
        stage.pod("single")
        await stage.until(lambda: stage.where("single") == "n1")
        await stage.until(lambda: "gang default/team is not known yet" in stage.why("late"))
        assert stage.placed("m0", "m1") == 2
        begun = stage.now()
        await stage.sleep(300)
        asked = [entry for entry in stage.requests("read", since=begun) if "scheduling.x-k8s.io" in entry.path]
        assert 8 <= len(asked) <= 12, "an absent API is asked for about twice a minute"

        stage.server.put(DEFINITION)
        stage.server.put({"kind": "PodGroup", "metadata": {"name": "team"}, "spec": {"minMember": 2}})
        await stage.until(lambda: stage.where("late") == "n1")

    play(story, without=("scheduling.k8s.io/v1beta1",))
