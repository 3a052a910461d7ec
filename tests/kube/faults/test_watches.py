"""Faults 1 to 5 of the catalogue: watches that break, stall, expire, lose deletions and repeat themselves."""

import pytest

from hostler.model import PreemptionRules
from tests.kube.faults.script import cut_after, doubled, expired_watch, lost, refused, stalled_after, unreachable
from tests.kube.faults.stage import SECOND, Stage, play

PODS, NODES = "pods", "nodes"


def _version_of(entry):
    return int(entry.call.query["resourceVersion"]) if entry.call.is_watch else 0


@pytest.mark.parametrize("events", [0, 1, 2])
def test_01_a_broken_watch_goes_on_where_it_was_and_nothing_is_done_twice(events):
    async def story(stage: Stage) -> None:
        stage.node("n1")
        cut = []
        leader = await stage.lead(script=lambda script: cut.append(script.next("watch", cut_after(events), about=PODS)))
        for name in ("a", "b", "c"):
            stage.pod(name)
        await stage.until(lambda: stage.placed("a", "b", "c") == 3)
        await stage.sleep(2.0)

        assert cut[0].played == 1
        assert [len(stage.targets(name)) for name in ("a", "b", "c")] == [1, 1, 1]
        assert leader.scheduler.reflectors["Pod"].relists == 0, "a watch that breaks needs no new list"
        first, second = stage.requests("watch", PODS)[:2]
        assert _version_of(second) >= _version_of(first)
        assert second.sent - first.sent <= 2 * SECOND

    play(story)


def test_01_a_server_that_takes_no_watch_is_asked_ever_more_rarely():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        refusing = leader.script.next("watch", unreachable(), about=PODS, times=None)
        leader.script.next("watch", cut_after(0), about=NODES)
        stage.server.bookmark_s = 1e9
        begun = stage.now()
        for answer in list(leader.script.outage._streams):
            answer.abort()
        await stage.sleep(600)
        assert 600 / 30 <= refusing.played <= 2 * 600 / 30 + 10
        refusing.times = 0
        stage.pod("late")
        await stage.until(lambda: stage.where("late") == "n1")
        assert stage.requests("watch", PODS, since=begun)

    play(story)


def test_02_a_watch_that_falls_silent_is_opened_again_before_its_view_is_too_old():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead(script=lambda script: script.next("watch", stalled_after(0), about=PODS))
        stage.pod("unseen")
        await stage.sleep(60)
        assert not stage.where("unseen"), "the stall must be real for this test to mean anything"
        assert leader.scheduler.view_age_s() > 50, "the age of the view is there for metrics and rules"
        await stage.until(lambda: stage.where("unseen") == "n1")
        assert leader.scheduler.view_age_s() < 60

    play(story)


def test_02_nobody_is_evicted_on_an_old_view_and_evictions_go_on_when_it_is_fresh():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.pod("small", cpu=2, on="n1")
        leader = await stage.lead(script=lambda script: script.next("watch", stalled_after(0), about=NODES))
        # The nodes' watch is silent, and every way to a fresh view is closed for a while.
        closed = [
            leader.script.next("watch", lost(), about=NODES, times=None),
            leader.script.next("read", lost(), about=NODES, times=None),
        ]
        await stage.sleep(110)
        assert leader.scheduler.view_age_s() > 100
        stage.pod("big", cpu=2, priority=10)
        await stage.sleep(120)
        assert leader.scheduler.hands.evictor.backlog == 1, "the engine wants the eviction, and it is held back"
        assert stage.evicted("small") == 0

        for line in closed:
            line.times = 0
        await stage.until(lambda: stage.where("big") == "n1")
        assert stage.evicted("small") == 1

    play(story, rules=PreemptionRules())


@pytest.mark.parametrize("as_event", [True, False], ids=["an event says so", "the answer says so"])
def test_03_an_expired_version_means_a_new_list_and_placing_goes_on(as_event):
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead(script=lambda script: script.next("watch", cut_after(1), about=PODS))
        leader.script.next("watch", expired_watch(as_event=as_event), about=PODS)
        stage.pod("a")
        await stage.until(lambda: stage.where("a"))
        await stage.until(lambda: leader.scheduler.reflectors["Pod"].relists == 1)
        stage.pod("b")
        await stage.until(lambda: stage.where("b"))
        assert stage.targets("a") == ["n1"]

    play(story)


def test_03_a_server_that_lists_but_lets_nobody_watch_is_not_listed_all_the_time():
    async def story(stage: Stage) -> None:
        stage.node("n1")

        def script(transport):
            transport.next("watch", expired_watch(as_event=False), about=PODS, times=None)

        await stage.lead(script=script)
        begun = stage.now()
        await stage.sleep(300)
        assert len(stage.requests("read", PODS, since=begun)) < 30

    play(story)


def test_04_room_of_a_pod_deleted_while_nobody_watched_is_found_by_the_next_list():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.pod("old", cpu=2, on="n1")
        leader = await stage.lead()
        stage.pod("new", cpu=2)
        await stage.until(lambda: stage.why("new"))

        stage.outage.begin(6.0)
        stage.server.delete("pods", "old", grace_s=0)
        stage.server.compact()  # the deletion can never be told as an event
        await stage.until(lambda: stage.where("new") == "n1")
        assert leader.scheduler.reflectors["Pod"].relists >= 1

    play(story)


def test_04_a_node_deleted_while_nobody_watched_is_given_nothing_more():
    async def story(stage: Stage) -> None:
        stage.node("gone", cpu=8)
        leader = await stage.lead()
        stage.outage.begin(6.0)
        stage.server.delete("nodes", "gone", "")
        stage.server.compact()
        await stage.sleep(7.0)
        await stage.until(lambda: not leader.scheduler.world.hosts)
        stage.pod("a")
        await stage.until(lambda: stage.why("a"))
        assert stage.targets("a") == []

    play(story)


def test_05_events_that_come_twice_and_in_the_wrong_order_change_nothing():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=3)

        def script(transport):
            transport.next("watch", doubled(), about=PODS, times=None)
            transport.next("watch", doubled(), about=NODES, times=None)

        leader = await stage.lead(script=script)
        for name in ("a", "b", "c", "d"):
            stage.pod(name)
        await stage.until(lambda: stage.placed("a", "b", "c", "d") == 3)
        waiting = next(name for name in ("a", "b", "c", "d") if not stage.where(name))
        stage.server.delete("pods", next(name for name in ("a", "b", "c", "d") if stage.where(name)))
        await stage.until(lambda: stage.where(waiting) == "n1")
        assert max(len(stage.targets(name)) for name in ("a", "b", "c", "d")) == 1
        assert leader.scheduler.core.engine.view.queue_length == 0

    play(story)


def test_05_a_refused_list_is_tried_again_until_it_works():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        stage.pod("a")
        stage.start(script=lambda script: script.next("read", refused(500, "InternalError", "no"), about=PODS, times=3))
        await stage.until(lambda: stage.where("a") == "n1")

    play(story)
