"""Faults 6 to 11 of the catalogue: binds that meet another pod, another scheduler, silence, overload or a refusal."""

import itertools

import pytest

from hostler.kube.settings import Limits
from tests.kube.faults.script import (
    failed_after,
    just_before,
    lost,
    refused,
    slow,
    stalled_after,
    throttled,
    unanswered,
    unreachable,
)
from tests.kube.faults.stage import SECOND, Stage, play

RATE_NOTE = "admission webhook denied the request: not on a Sunday"


def test_06_a_pod_that_was_replaced_under_the_same_name_is_decided_anew():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()

        def replace() -> None:
            stage.server.delete("pods", "web-0", grace_s=0)
            stage.pod("web-0", cpu=2)

        leader.script.next("binding", just_before(replace), about="web-0")
        old = stage.pod("web-0")["metadata"]["uid"]
        await stage.until(lambda: stage.where("web-0") == "n1")

        first, second = stage.requests("binding", "web-0")
        assert (first.decoded()["metadata"]["uid"], first.status) == (old, 409)
        assert (second.decoded()["metadata"]["uid"], second.status) == (stage.uid("web-0"), 201)
        assert old not in leader.scheduler.world.pods

    play(story)


def test_07_a_pod_that_another_scheduler_bound_first_is_counted_where_it_is_and_not_bound_again():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        leader = await stage.lead()

        def overtake() -> None:
            stage.bind_as_other("a", "n2")

        leader.script.next("binding", just_before(overtake), about="a")
        stage.pod("a", cpu=2, nodeSelector={"kubernetes.io/hostname": "n1"})
        await stage.until(lambda: stage.where("a"))
        await stage.sleep(30)
        assert len(stage.targets("a")) == 1
        assert leader.scheduler.core.engine.decision(stage.uid("a")).host == "n2"
        stage.pod("b", cpu=2)
        await stage.until(lambda: stage.where("b"))
        assert stage.where("b") == "n1", "the room that was assumed for the first pod is free again"

    play(story)


def test_07_a_pod_that_another_scheduler_bound_first_is_read_back_when_the_watch_does_not_tell():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.node("n2", cpu=2)
        leader = await stage.lead(script=lambda script: script.next("watch", stalled_after(1), about="pods"))
        leader.script.next("binding", just_before(lambda: stage.bind_as_other("a", "n2")), about="a")
        stage.pod("a", cpu=2, nodeSelector={"kubernetes.io/hostname": "n1"})
        await stage.sleep(60)
        assert stage.targets("a") == ["n1"]
        assert leader.scheduler.core.engine.decision(stage.uid("a")).host == "n2"
        await stage.sleep(60)

    play(story)


@pytest.mark.parametrize(
    "fault",
    [unanswered(), failed_after(500), failed_after(504), failed_after(503)],
    ids=["silence", "500", "504", "503"],
)
def test_08_a_bind_without_an_answer_is_read_back_and_found_done(fault):
    async def story(stage: Stage) -> None:
        stage.node("n1")
        stage.node("n2")
        leader = await stage.lead()
        leader.script.next("binding", fault, about="a")
        stage.pod("a")
        await stage.until(lambda: leader.scheduler.binder.counts.bound == 1)
        assert len(stage.targets("a")) == 1
        assert leader.scheduler.binder.counts.unknown == 1
        await stage.until(lambda: stage.events("a") == ["Scheduled"])

    play(story)


@pytest.mark.parametrize(
    "fault", [lost(), refused(500, "InternalError", "no"), refused(504, "Timeout", "no")], ids=["silence", "500", "504"]
)
def test_08_a_bind_without_an_answer_is_read_back_before_another_node_is_tried(fault):
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        leader = await stage.lead()
        leader.script.next("binding", fault, about="a")
        stage.pod("a")
        await stage.until(lambda: stage.targets("a") == ["n1"])
        # The other node is better from now on: whoever decides at once goes there.
        stage.change_node("n1", unschedulable=True)
        stage.node("n2", cpu=64)
        await stage.until(lambda: stage.where("a") == "n2")

        first, second = stage.requests("binding", "a")
        reads = [entry for entry in stage.requests("read", "a") if first.sent < entry.sent < second.sent]
        assert reads, "it was read back"
        assert reads[-1].arrived >= first.sent + 4 * SECOND, "and not before the first bind had lost its time"

    play(story)


def test_08_a_bind_that_is_carried_out_at_the_last_moment_is_not_followed_by_another():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        leader = await stage.lead()
        leader.script.next("binding", slow(3.9), about="a")
        stage.pod("a")
        await stage.until(lambda: stage.targets("a") == ["n1"])
        stage.node("n2", cpu=64)
        await stage.until(lambda: leader.scheduler.binder.counts.bound == 1)
        assert stage.where("a") == "n1"
        assert stage.targets("a") == ["n1"]

    play(story)


def test_08_a_connection_that_never_was_costs_only_a_try():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        leader.script.next("binding", unreachable(), about="a")
        stage.pod("a")
        await stage.until(lambda: stage.where("a") == "n1")
        assert leader.scheduler.binder.counts.unknown == 0

    play(story)


def test_09_a_server_out_of_breath_gets_fewer_binds_at_once_and_none_before_it_asked():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        leader = await stage.lead()
        window = leader.scheduler.binder.window
        before = window.size
        line = leader.script.next("binding", throttled(5), times=3)
        begun = stage.now()
        for number in range(40):
            stage.pod(f"p{number}", cpu=1)
        await stage.until(lambda: line.played == 3)
        assert window.size < before
        await stage.until(lambda: stage.placed(*(f"p{number}" for number in range(40))) == 40)

        binds = stage.requests("binding")
        throttled_at = max(entry.told_at for entry in binds if entry.told == 429)
        quiet = [entry for entry in binds if throttled_at < entry.sent < throttled_at + 5 * SECOND]
        assert quiet == [], "Retry-After is kept"
        assert any(entry.sent > begun for entry in stage.requests("lease")), "the lease is renewed all the same"
        assert leader.leads

    play(story, limits=Limits(max_in_flight=32))


def test_09_the_lease_is_renewed_while_all_binds_are_turned_away_and_the_important_go_first_afterwards():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        leader = await stage.lead()
        line = leader.script.next("binding", throttled(1), times=None)
        for number in range(30):
            stage.pod(f"low{number}")
        await stage.sleep(60)
        stage.pod("high", priority=1000)
        await stage.sleep(60)
        assert leader.leads
        assert line.played < 200, "a server that is out of breath is not pressed"
        renewals = stage.requests("lease", since=stage.now() - 20 * SECOND)
        assert len(renewals) >= 8
        line.times = 0
        healed = stage.now()
        await stage.until(lambda: stage.where("high"))
        bound_before = [
            entry
            for entry in stage.requests("binding", since=healed)
            if entry.sent < stage.requests("binding", "high")[0].sent
        ]
        assert len(bound_before) <= 2 * leader.scheduler.binder.window.most, "only what was decided before it"
        await stage.until(lambda: stage.placed(*(f"low{number}" for number in range(30))) == 30)

    play(story)


@pytest.mark.parametrize("election", [True, False], ids=["with a lease", "without"])
def test_10_five_minutes_without_a_server_cost_few_requests_and_the_queue_drains_without_a_rush(election):
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        stage.pod("victim", cpu=60, on="n1")
        actor = stage.supervise()
        await stage.until(lambda: actor.leads)
        names = [f"p{number}" for number in range(60)]
        stage.outage.begin(300.0)
        begun = stage.now()
        stage.server.delete("pods", "victim", grace_s=0)
        for name in names:
            stage.pod(name)
        stage.pod("high", cpu=4, priority=100)
        await stage.sleep(299.0)
        during = stage.requests(since=begun)
        kinds = 15  # collections that are watched
        assert len(during) < kinds * 40 + 300, "no spin: each watch, the lease and binds back off"
        assert not stage.requests("delete")

        await stage.until(lambda: stage.placed("high", *names) == 61, within_s=180)
        binds = stage.requests("binding", since=begun + 300 * SECOND)
        at_once = max(sum(other.sent <= one.sent < (other.told_at or stage.now()) for other in binds) for one in binds)
        assert at_once <= 16, "those who waited do not come all at once"
        assert all(len(stage.targets(name)) <= 2 for name in names)

    play(story, election=election, limits=Limits(max_in_flight=16))


def test_10_binds_that_meet_no_server_are_tried_one_at_a_time_ever_more_rarely():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        await stage.lead()
        names = [f"p{number}" for number in range(60)]
        for name in names:
            stage.pod(name)
        await stage.until(lambda: stage.requests("binding"))
        stage.outage.begin(300.0)
        await stage.sleep(30.0)
        begun = stage.now()
        await stage.sleep(260.0)
        assert len(stage.requests("binding", since=begun)) <= 30
        await stage.until(lambda: stage.placed(*names) == 60, within_s=180)

    play(story, election=False, latency_s=0.2, limits=Limits(max_in_flight=8))


def test_10_nobody_is_evicted_while_the_server_is_away():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        stage.pod("small", cpu=2, on="n1")
        await stage.lead()
        stage.pod("big", cpu=2, priority=10)
        stage.outage.begin(300.0)
        await stage.sleep(299.0)
        assert stage.where("small") == "n1"
        assert not [entry for entry in stage.requests("delete") if entry.arrived]
        await stage.until(lambda: stage.where("big") == "n1", within_s=180)

    play(story, election=False)


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (422, "Invalid"), (400, "BadRequest")], ids=["403", "422", "400"]
)
def test_11_a_bind_that_a_webhook_forbids_is_tried_again_later_and_its_owner_learns_why(code, reason):
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        leader = await stage.lead()
        line = leader.script.next("binding", refused(code, reason, RATE_NOTE), about="a", times=4)
        stage.pod("a", cpu=2)
        await stage.until(lambda: line.played == 2)
        # Nothing is held for a pod whose bind was refused: another may have its room.
        await stage.until(lambda: RATE_NOTE in stage.why("a"))
        assert "FailedScheduling" in stage.events("a")
        stage.pod("b", cpu=2, priority=1)
        await stage.until(lambda: stage.where("b") == "n1")
        stage.server.delete("pods", "b")
        await stage.until(lambda: stage.where("a") == "n1")
        times = [entry.sent for entry in stage.requests("binding", "a")]
        assert all(later - earlier >= SECOND // 2 for earlier, later in itertools.pairwise(times))

    play(story)


def test_11_a_condition_that_a_webhook_forbids_does_not_keep_a_pod_from_its_node():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=1)
        leader = await stage.lead()
        line = leader.script.next("status", refused(403, "Forbidden", RATE_NOTE), times=None)
        stage.pod("a", cpu=2)
        await stage.until(lambda: line.played)
        await stage.sleep(60)
        assert line.played < 10, "what the server will never take is not repeated without end"
        stage.change_node("n1", cpu=2)
        await stage.until(lambda: stage.where("a") == "n1")

    play(story)


def test_11_news_about_a_pod_never_arrives_after_newer_news():
    """Two writes of one status must not be under way at once: the first may be held up and win."""

    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=1)
        leader = await stage.lead()
        line = leader.script.next("status", slow(3.0))
        stage.pod("a", group="team")  # its gang is not known yet
        await stage.until(lambda: line.played)
        stage.group("team", least=4)
        await stage.sleep(30)
        assert "1/4 members" in stage.why("a")

    play(story)


def test_11_a_status_that_was_refused_once_is_written_when_there_is_other_news():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=1)
        leader = await stage.lead()
        line = leader.script.next("status", refused(403, "Forbidden", RATE_NOTE))
        stage.pod("a", cpu=2)
        await stage.until(lambda: line.played)
        await stage.sleep(20)
        stage.node("n2", cpu=1)
        await stage.until(lambda: stage.why("a").startswith("0/2 nodes"), within_s=600)

    play(story)
