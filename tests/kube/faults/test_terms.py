"""A lease that is lost and had again by the same process: it must be as if the process had been started anew."""

import asyncio
from functools import partial

from msgspec.structs import replace

from hostler.kube.service.collector import metrics_text
from hostler.kube.service.numbers import Numbers
from hostler.kube.settings import Limits
from tests.kube.faults.script import lost, slow
from tests.kube.faults.stage import SECOND, Stage, play

RENEW_S, LEASE_S, BIND_S = 10, 15, 4
READS = ("GET",)


def _claims(stage: Stage, identity: str) -> list[int]:
    """Return when the lease was taken or renewed by an identity, in order."""
    return [
        entry.committed
        for entry in stage.requests("lease")
        if entry.committed is not None and entry.decoded()["spec"]["holderIdentity"] == identity
    ]


def test_a_leader_that_loses_its_lease_waits_for_it_again_as_a_new_process_would():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        first = actor.scheduler
        actor.script.next("lease", lost(), times=None)
        actor.script.next("binding", slow(3.0), times=None)
        names = [f"p{number}" for number in range(60)]
        for name in names:
            stage.pod(name)
        await stage.until(lambda: actor.terms.lost == 1)
        assert 0 < stage.placed(*names) < 60, "it was in the middle of binding"
        actor.script.lines.clear()
        await stage.until(lambda: actor.leads)
        await stage.until(lambda: stage.placed(*names) == 60)

        second = actor.scheduler
        assert second is not first
        assert second.identity != first.identity
        old, taken = max(_claims(stage, first.identity)), min(_claims(stage, second.identity))
        assert taken >= old + LEASE_S * SECOND
        listed = next(entry.sent for entry in stage.requests("read", "pods") if entry.sent > taken)
        assert listed >= taken + BIND_S * SECOND, "what was sent last has timed out by then"
        ended = old + RENEW_S * SECOND
        between = [one for one in stage.requests() if ended <= one.sent < listed and one.method not in READS]
        assert {one.path.split("/")[-2] for one in between} <= {"leases"}, "nothing was written without a mandate"

    play(story)


def test_an_outage_longer_than_the_lease_is_survived_and_counted():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        actor = stage.last()
        stage.pod("early")
        await stage.until(lambda: stage.where("early"))
        for times in (1, 2):
            stage.outage.begin(60)
            stage.pod(f"meanwhile-{times}")
            await stage.sleep(60)
            assert not actor.leads
            await stage.until(partial(stage.where, f"meanwhile-{times}"))
            text = metrics_text(actor.scheduler, stage.clock, Numbers(), None).decode()
            assert f"hostler_lease_losses_total {times}.0" in text
            assert (
                f'hostler_schedule_attempts_total{{profile="hostler-scheduler",result="scheduled"}} {times + 1}.0'
                in (text)
            ), "what was counted before still counts"
        assert not actor.task.done()

    play(story)


def test_a_bind_that_the_server_carries_out_after_the_lease_was_lost_is_not_sent_to_a_second_node():
    async def story(stage: Stage) -> None:
        for number in range(4):
            stage.node(f"n{number}", cpu=1)
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        actor.script.next("lease", lost(), times=None)
        await stage.sleep(RENEW_S - 1.5)
        late = actor.script.next("binding", slow(3.9), times=None)
        stage.pod("web")
        await stage.until(lambda: actor.terms.lost == 1)
        assert late.played == 1
        assert not stage.where("web")
        actor.script.lines.clear()
        await stage.until(lambda: actor.leads)
        await stage.sleep(30)
        assert len(set(stage.targets("web"))) == 1
        assert stage.where("web") in stage.targets("web")

    play(story)


def test_a_process_that_lost_the_lease_to_another_takes_over_from_it_in_turn():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        first = stage.last("first")
        await stage.until(lambda: first.leads)
        second = stage.last("second")
        first.script.next("lease", lost(), times=None)
        await stage.until(lambda: second.leads)
        first.script.lines.clear()
        stage.pod("a")
        await stage.until(lambda: stage.where("a"))
        await stage.sleep(60)
        assert second.leads
        assert not first.leads
        await stage.crash(second)
        stage.pod("b")
        await stage.until(lambda: stage.where("b"))
        assert first.leads
        assert first.terms.lost == 1

    play(story)


def test_a_gang_that_a_lost_lease_left_half_bound_is_completed_by_the_next_term():
    async def story(stage: Stage) -> None:
        for number in range(3):
            stage.node(f"n{number}", cpu=2)
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        stage.group("team", least=3)
        actor.script.next("lease", lost(), times=None)
        actor.script.next("binding", lost(), about="m1", times=None)
        actor.script.next("binding", lost(), about="m2", times=None)
        await stage.sleep(RENEW_S - 3)
        for number in range(3):
            stage.pod(f"m{number}", cpu=2, group="team")
        await stage.until(lambda: actor.terms.lost == 1)
        assert stage.placed("m0", "m1", "m2") == 1
        actor.script.lines.clear()
        await stage.until(lambda: stage.placed("m0", "m1", "m2") == 3)
        assert len(stage.targets("m0")) == 1

    play(story, limits=Limits(max_in_flight=8))


def test_policies_that_were_taken_over_while_it_ran_stay_when_the_lease_was_lost():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        (policy,) = actor.scheduler.settings.policies
        alone = replace(policy, one_guest_per_host=True)
        await actor.scheduler.adopt(replace(actor.scheduler.settings, policies=(alone,)))
        actor.script.next("lease", lost(), times=None)
        await stage.until(lambda: actor.terms.lost == 1)
        actor.script.lines.clear()
        stage.pod("a")
        stage.pod("b")
        await stage.until(lambda: actor.leads)
        await stage.sleep(30)
        assert stage.placed("a", "b") == 1

    play(story)


def test_a_request_to_stop_ends_the_wait_for_a_lease_that_was_lost():
    async def story(stage: Stage) -> None:
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        stage.outage.begin(600)
        await stage.until(lambda: actor.terms.lost == 1)
        actor.stop.set()
        await stage.until(actor.task.done)
        assert actor.task.exception() is None

    play(story)


def test_a_term_ends_at_its_deadline_although_the_last_renewal_has_no_answer_yet():
    async def story(stage: Stage) -> None:
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        first = actor.scheduler
        actor.script.next("lease", lost(), times=None)
        while actor.terms.lost == 0:
            await stage.sleep(0.01)
        deadline = max(_claims(stage, first.identity)) + RENEW_S * SECOND
        assert abs(stage.now() - deadline) < SECOND // 10
        assert not first.mandate.is_held

    play(story)


def test_nothing_of_an_old_term_is_written_under_the_mandate_of_the_next():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        first = actor.scheduler
        actor.script.next("lease", lost(), times=None)
        for kind in ("status", "event"):
            actor.script.next(kind, lost(), times=None)
        stage.pod("big", cpu=64)
        await stage.until(lambda: first.trail.backlog)
        await stage.until(lambda: actor.terms.lost == 1)
        pod = first.world.pods[stage.uid("big")]
        first.hands.statuses.refuse(pod, "late words")
        first.hands.reports.refused(pod, "late words")
        actor.script.lines.clear()
        await stage.until(lambda: actor.leads)
        await stage.until(lambda: "Insufficient cpu" in stage.why("big"))
        await stage.sleep(120)
        assert first.trail.backlog == 0
        assert [event for event in stage.server.objects("events") if event["note"] == "late words"] == []
        assert {one["reportingInstance"] for one in stage.server.objects("events")} == {actor.scheduler.identity}

    play(story)


class Hanging:
    """An executor at whose work nobody ends any more."""

    async def run(self, work):
        await asyncio.Event().wait()

    def close(self) -> None:
        """There is nothing to end."""


def test_a_request_to_stop_ends_a_process_that_lost_its_lease_while_a_plugin_hangs():
    async def story(stage: Stage) -> None:
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        stage.outage.begin(600)
        await stage.until(lambda: actor.terms.lost == 1)
        await stage.sleep(60)
        assert not actor.task.done(), "what the old term is at may still write into its journal"
        actor.stop.set()
        await stage.until(actor.task.done)
        assert actor.task.exception() is None

    play(story, executor=Hanging(), is_clean=False)
