"""Faults 17, 18, 19 and 32 of the catalogue: lost leases, clocks that jump, crashes, and the wish to stop."""

import asyncio

import pytest

from hostler.kube.api.clock import SteadyClock
from hostler.kube.settings import GangRules, Limits
from tests.kube.faults.script import lost, slow, throttled, unanswered
from tests.kube.faults.stage import SECOND, Stage, play

RENEW_S, LEASE_S, BIND_S = 10, 15, 4


def _lease(stage):
    return stage.server.get("leases", "hostler-scheduler", "kube-system")["spec"]


def _renewals(stage, holder):
    """Return when a holder's claims were taken by the server."""
    return [
        entry.committed
        for entry in stage.requests("lease")
        if entry.committed is not None and entry.decoded()["spec"]["holderIdentity"].startswith(holder)
    ]


def test_17_a_leader_that_cannot_renew_sends_no_bind_after_its_deadline_and_ends():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        first = await stage.lead("first")
        first.script.next("lease", lost(), times=None)
        first.script.next("binding", slow(1.0), times=None)
        for number in range(60):
            stage.pod(f"p{number}")
        ending = await first.task
        assert ending == "lost"
        last_renewal = max(_renewals(stage, "first"))
        binds = stage.requests("binding")
        assert len(binds) > 4, "it was in the middle of binding"
        assert max(entry.sent for entry in binds) < last_renewal + RENEW_S * SECOND
        assert max(entry.committed or 0 for entry in binds) < last_renewal + LEASE_S * SECOND

    play(story)


def test_17_a_new_leader_waits_until_the_binds_of_the_old_one_are_over_and_reads_after_its_own_lease_write():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        first = await stage.lead("first")
        second = stage.start("second")
        await stage.sleep(5)
        first.script.next("lease", lost(), times=None)
        first.script.next("binding", slow(3.0), times=None)
        for number in range(30):
            stage.pod(f"p{number}")
        await stage.until(lambda: second.leads)
        names = [f"p{number}" for number in range(30)]
        await stage.until(lambda: stage.placed(*names) == 30)

        old, taken = max(_renewals(stage, "first")), min(_renewals(stage, "second"))
        assert taken >= old + LEASE_S * SECOND
        lists = [entry for entry in stage.requests("read", "pods") if entry.sent > taken]
        assert lists[0].sent >= taken + BIND_S * SECOND, "what the old leader sent last has timed out by then"
        between = [entry for entry in stage.requests("binding") if old + RENEW_S * SECOND <= entry.sent < lists[0].sent]
        assert between == []
        assert first.task.done()

    play(story)


def test_17_a_process_that_stood_still_for_a_minute_does_no_harm_when_it_goes_on():
    """A pause of the whole process is played by its connection: what it sent leaves a minute later."""

    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        first = await stage.lead("first")
        second = stage.start("second")
        await stage.sleep(3)
        first.script.freeze()
        stage.pod("a", cpu=2)
        await stage.sleep(60)
        assert second.leads
        assert stage.where("a") == "n1"
        stage.pod("b", cpu=2)
        first.script.thaw()
        await stage.sleep(30)
        assert not stage.where("b")
        assert _lease(stage)["holderIdentity"] == "second-1"
        assert first.task.done()
        assert second.leads

    play(story)


def test_18_the_clock_of_a_scheduler_does_not_follow_a_wall_clock_that_is_set(monkeypatch):
    async def main() -> None:
        wall = [1_700_000_000 * SECOND]
        monkeypatch.setattr("hostler.kube.api.clock.time.time_ns", lambda: wall[0])
        clock = SteadyClock()
        start = clock.now()
        assert abs(start - wall[0]) < SECOND
        for jump_s in (3600, -7200, 86_400):
            wall[0] += jump_s * SECOND
            assert 0 <= clock.now() - start < 60 * SECOND

    asyncio.run(main())


def test_18_a_rival_whose_clock_is_an_hour_off_neither_steals_nor_keeps_the_lease():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        first = await stage.lead("first")

        def skew(seconds: int):
            def how(item):
                spec = {**item["spec"], "renewTime": f"2026-01-05T{9 + seconds // 3600:02d}:00:00.000000Z"}
                return {**item, "spec": spec}

            return how

        second = stage.start("second")
        for seconds in (3600, -3600, 7200):  # what is written in the lease comes from some other clock
            stage.server.change("leases", "hostler-scheduler", skew(seconds), "kube-system")
            await stage.sleep(20)
            assert first.leads
            assert not second.leads
        await stage.crash(first)
        stage.server.change("leases", "hostler-scheduler", skew(10 * 3600), "kube-system")
        begun = stage.now()
        await stage.until(lambda: second.leads)
        assert LEASE_S * SECOND <= stage.now() - begun <= (LEASE_S + BIND_S + 6) * SECOND

    play(story)


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_19_a_gang_that_a_crash_left_half_bound_is_completed(bound):
    async def story(stage: Stage) -> None:
        for number in range(4):
            stage.node(f"n{number}", cpu=2)
        first = await stage.lead("first")
        stage.group("team", least=4)
        held = [first.script.next("binding", lost(), about=f"m{number}", times=None) for number in range(bound, 4)]
        for number in range(4):
            stage.pod(f"m{number}", cpu=2, group="team")
        await stage.until(lambda: all(line.played for line in held))
        members = [f"m{number}" for number in range(4)]
        assert stage.placed(*members) == bound
        await stage.crash(first)

        await stage.lead("second")
        await stage.until(lambda: stage.placed(*members) == 4)
        for name in members[:bound]:
            assert len(stage.targets(name)) == 1, "who is bound is not bound again"

    play(story, limits=Limits(max_in_flight=8))


def test_19_a_half_bound_gang_that_cannot_be_completed_waits_with_a_reason_and_is_completed_when_there_is_room():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        first = await stage.lead("first")
        stage.group("team", least=2)
        first.script.next("binding", lost(), about="m1", times=None)
        stage.pod("m0", cpu=2, group="team")
        stage.pod("m1", cpu=2, group="team")
        await stage.until(lambda: stage.where("m0") and stage.targets("m1"))
        await stage.crash(first)
        stage.server.delete("nodes", next(node for node in ("n1", "n2") if node != stage.where("m0")), "")

        await stage.lead("second")
        await stage.until(lambda: "Insufficient cpu" in stage.why("m1"))
        await stage.sleep(60)
        assert stage.placed("m0", "m1") == 1
        stage.node("n3", cpu=2)
        await stage.until(lambda: stage.where("m1") == "n3")

    play(story)


@pytest.mark.parametrize("points", range(40, 130, 6))
def test_19_whatever_the_moment_of_a_crash_the_next_process_finishes_the_gang(points):
    async def story(stage: Stage) -> None:
        for number in range(3):
            stage.node(f"n{number}", cpu=2)
        stage.group("team", least=3)
        for number in range(3):
            stage.pod(f"m{number}", cpu=2, group="team")
        first = stage.start("first")
        first.script.crash_after(points)
        await stage.sleep(10)
        await stage.crash(first)
        await stage.lead("second")
        await stage.until(lambda: stage.placed("m0", "m1", "m2") == 3)

    play(story, seed=points)


def test_32_a_scheduler_that_is_told_to_stop_finishes_what_it_sent_sends_nothing_more_and_gives_the_lease_back():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        first = await stage.lead("first")
        first.script.next("binding", slow(2.0), times=None)
        names = [f"p{number}" for number in range(40)]
        for name in names:
            stage.pod(name)
        await stage.until(lambda: len(stage.requests("binding")) == 4)
        told = stage.now()
        first.stop.set()
        assert await first.task == "stopped"
        assert (stage.now() - told) / SECOND < 30, "well within the grace period that a pod has"
        assert [entry for entry in stage.requests("binding") if entry.sent > told + SECOND] == []
        assert stage.placed(*names) == len(stage.requests("binding")) == 4
        assert _lease(stage)["holderIdentity"] == ""
        events = [event for event in stage.server.objects("events") if event["reason"] == "Scheduled"]
        assert len(events) == 4

        begun = stage.now()
        await stage.lead("second")
        assert stage.now() - begun < 5 * SECOND, "a lease that was given back is not waited for"
        await stage.until(lambda: stage.placed(*names) == 40)

    play(story, limits=Limits(max_in_flight=4))


@pytest.mark.parametrize("fault", [unanswered(), lost(), throttled(3)], ids=["done unseen", "lost", "turned away"])
def test_32_stopping_in_the_middle_of_a_bind_without_an_answer_leaves_nothing_open(fault):
    async def story(stage: Stage) -> None:
        stage.node("n1")
        first = await stage.lead("first")
        line = first.script.next("binding", fault, about="a", times=None)
        stage.pod("a")
        await stage.until(lambda: line.played)
        first.stop.set()
        assert await first.task == "stopped"
        await stage.lead("second")
        await stage.until(lambda: stage.where("a") == "n1")

    play(story)


def test_32_a_scheduler_that_never_got_the_lease_stops_at_once():
    async def story(stage: Stage) -> None:
        await stage.lead("first")
        second = stage.start("second")
        await stage.sleep(5)
        second.stop.set()
        assert await second.task == "stopped"
        assert _lease(stage)["holderIdentity"] == "first-0"

    play(story)


def test_19_a_half_bound_gang_that_cannot_be_completed_is_released_by_its_rule():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        first = await stage.lead("first")
        stage.group("team", least=2)
        first.script.next("binding", lost(), about="m1", times=None)
        stage.pod("m0", cpu=2, group="team")
        stage.pod("m1", cpu=2, group="team")
        await stage.until(lambda: stage.where("m0") and stage.targets("m1"))
        await stage.crash(first)
        free = next(node for node in ("n1", "n2") if node != stage.where("m0"))
        stage.server.delete("nodes", free, "")

        await stage.lead("second")
        await stage.until(lambda: stage.server.get("pods", "m0") is None)
        assert stage.evicted("m0") == 1
        await stage.until(lambda: stage.why("m1"))

    play(story, gangs=GangRules(when_broken="release_after", release_after_s=30.0))
