"""A lease that the same process loses and acquires again: it behaves like a new process."""

import asyncio
from functools import partial

from msgspec.structs import replace

from hostler.kube.service.collector import metrics_text
from hostler.kube.service.numbers import QueueNumbers
from hostler.kube.settings import ApiLimits
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import lost, slow
from tests.kube.faults.simulated_cluster import SECOND, SimulatedCluster, play

RENEW_S, LEASE_S, BIND_S = 10, 15, 4
READS = ("GET",)


def _claims(cluster: SimulatedCluster, identity: str) -> list[int]:
    """Return when the lease was taken or renewed by an identity, in order."""
    return [
        entry.committed
        for entry in cluster.requests("lease")
        if entry.committed is not None and entry.decoded()["spec"]["holderIdentity"] == identity
    ]


@run_with(play)
async def test_leader_that_loses_its_lease_waits_for_it_like_a_new_process(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    first = actor.scheduler
    actor.script.next("lease", lost(), times=None)
    actor.script.next("binding", slow(3.0), times=None)
    names = [f"p{number}" for number in range(60)]
    for name in names:
        cluster.pod(name)
    await cluster.until(lambda: actor.terms.lost == 1)
    assert 0 < cluster.placed(*names) < 60, "it was in the middle of binding"
    actor.script.lines.clear()
    await cluster.until(lambda: actor.leads)
    await cluster.until(lambda: cluster.placed(*names) == 60)

    second = actor.scheduler
    assert second is not first
    assert second.identity != first.identity
    old, taken = max(_claims(cluster, first.identity)), min(_claims(cluster, second.identity))
    assert taken >= old + LEASE_S * SECOND
    listed = next(entry.sent for entry in cluster.requests("read", "pods") if entry.sent > taken)
    assert listed >= taken + BIND_S * SECOND, "what was sent last has timed out by then"
    ended = old + RENEW_S * SECOND
    between = [one for one in cluster.requests() if ended <= one.sent < listed and one.method not in READS]
    assert {one.path.split("/")[-2] for one in between} <= {"leases"}, "nothing was written without a mandate"


@run_with(play)
async def test_an_outage_longer_than_the_lease_is_survived_and_counted(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    actor = cluster.last()
    cluster.pod("early")
    await cluster.until(lambda: cluster.where("early"))
    for times in (1, 2):
        cluster.outage.begin(60)
        cluster.pod(f"meanwhile-{times}")
        await cluster.sleep(60)
        assert not actor.leads
        await cluster.until(partial(cluster.where, f"meanwhile-{times}"))
        text = metrics_text(actor.scheduler, cluster.clock, QueueNumbers(), None).decode()
        assert f"hostler_lease_losses_total {times}.0" in text
        assert f'hostler_schedule_attempts_total{{profile="hostler-scheduler",result="scheduled"}} {times + 1}.0' in (
            text
        ), "what was counted before still counts"
    assert not actor.task.done()


@run_with(play)
async def test_bind_executed_after_lease_loss_is_not_sent_to_a_second_node(cluster: SimulatedCluster, /):
    for number in range(4):
        cluster.node(f"n{number}", cpu=1)
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    actor.script.next("lease", lost(), times=None)
    await cluster.sleep(RENEW_S - 1.5)
    late = actor.script.next("binding", slow(3.9), times=None)
    cluster.pod("web")
    await cluster.until(lambda: actor.terms.lost == 1)
    assert late.played == 1
    assert not cluster.where("web")
    actor.script.lines.clear()
    await cluster.until(lambda: actor.leads)
    await cluster.sleep(30)
    assert len(set(cluster.targets("web"))) == 1
    assert cluster.where("web") in cluster.targets("web")


@run_with(play)
async def test_process_that_lost_its_lease_takes_it_over_again_in_turn(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    first = cluster.last("first")
    await cluster.until(lambda: first.leads)
    second = cluster.last("second")
    first.script.next("lease", lost(), times=None)
    await cluster.until(lambda: second.leads)
    first.script.lines.clear()
    cluster.pod("a")
    await cluster.until(lambda: cluster.where("a"))
    await cluster.sleep(60)
    assert second.leads
    assert not first.leads
    await cluster.crash(second)
    cluster.pod("b")
    await cluster.until(lambda: cluster.where("b"))
    assert first.leads
    assert first.terms.lost == 1


@run_with(play, limits=ApiLimits(max_in_flight=8))
async def test_gang_half_bound_by_a_lost_lease_is_completed_next_term(cluster: SimulatedCluster, /):
    for number in range(3):
        cluster.node(f"n{number}", cpu=2)
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    cluster.group("team", least=3)
    actor.script.next("lease", lost(), times=None)
    actor.script.next("binding", lost(), about="m1", times=None)
    actor.script.next("binding", lost(), about="m2", times=None)
    await cluster.sleep(RENEW_S - 3)
    for number in range(3):
        cluster.pod(f"m{number}", cpu=2, group="team")
    await cluster.until(lambda: actor.terms.lost == 1)
    assert cluster.placed("m0", "m1", "m2") == 1
    actor.script.lines.clear()
    await cluster.until(lambda: cluster.placed("m0", "m1", "m2") == 3)
    assert len(cluster.targets("m0")) == 1


@run_with(play)
async def test_policies_adopted_at_run_time_survive_a_lost_lease(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    (policy,) = actor.scheduler.settings.policies
    alone = replace(policy, one_guest_per_host=True)
    await actor.scheduler.adopt(replace(actor.scheduler.settings, policies=(alone,)))
    actor.script.next("lease", lost(), times=None)
    await cluster.until(lambda: actor.terms.lost == 1)
    actor.script.lines.clear()
    cluster.pod("a")
    cluster.pod("b")
    await cluster.until(lambda: actor.leads)
    await cluster.sleep(30)
    assert cluster.placed("a", "b") == 1


@run_with(play)
async def test_a_request_to_stop_ends_the_wait_for_a_lease_that_was_lost(cluster: SimulatedCluster, /):
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    cluster.outage.begin(600)
    await cluster.until(lambda: actor.terms.lost == 1)
    actor.stop.set()
    await cluster.until(actor.task.done)
    assert actor.task.exception() is None


@run_with(play)
async def test_term_ends_at_its_deadline_despite_an_unanswered_renewal(cluster: SimulatedCluster, /):
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    first = actor.scheduler
    actor.script.next("lease", lost(), times=None)
    while actor.terms.lost == 0:
        await cluster.sleep(0.01)
    deadline = max(_claims(cluster, first.identity)) + RENEW_S * SECOND
    assert abs(cluster.now() - deadline) < SECOND // 10
    assert not first.mandate.is_held


@run_with(play)
async def test_nothing_of_an_old_term_is_written_under_the_mandate_of_the_next(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    first = actor.scheduler
    actor.script.next("lease", lost(), times=None)
    for kind in ("status", "event"):
        actor.script.next(kind, lost(), times=None)
    cluster.pod("big", cpu=64)
    await cluster.until(lambda: first.write_queue.backlog)
    await cluster.until(lambda: actor.terms.lost == 1)
    pod = first.cluster.pods[cluster.uid("big")]
    first.executors.statuses.report_unschedulable(pod, "late words")
    first.executors.reports.report_unschedulable(pod, "late words")
    actor.script.lines.clear()
    await cluster.until(lambda: actor.leads)
    await cluster.until(lambda: "Insufficient cpu" in cluster.why("big"))
    await cluster.sleep(120)
    assert first.write_queue.backlog == 0
    assert [event for event in cluster.server.objects("events") if event["note"] == "late words"] == []
    assert {one["reportingInstance"] for one in cluster.server.objects("events")} == {actor.scheduler.identity}


class Hanging:
    """An executor whose work never ends."""

    async def run(self, work):
        await asyncio.Event().wait()

    def close(self) -> None:
        """There is nothing to end."""


@run_with(play, executor=Hanging(), is_clean=False)
async def test_stop_ends_a_process_without_lease_while_a_plugin_hangs(cluster: SimulatedCluster, /):
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    cluster.outage.begin(600)
    await cluster.until(lambda: actor.terms.lost == 1)
    await cluster.sleep(60)
    assert not actor.task.done(), "what the old term is at may still write into its journal"
    actor.stop.set()
    await cluster.until(actor.task.done)
    assert actor.task.exception() is None
