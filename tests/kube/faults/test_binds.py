"""Faults 6 to 11 of the catalogue: binds that meet another pod, another scheduler, silence, overload or a refusal."""

import itertools

import pytest

from hostler.kube.settings import ApiLimits
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import (
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
from tests.kube.faults.simulated_cluster import SECOND, SimulatedCluster, play

RATE_NOTE = "admission webhook denied the request: not on a Sunday"


@run_with(play)
async def test_06_a_pod_that_was_replaced_under_the_same_name_is_decided_again(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()

    def replace() -> None:
        cluster.server.delete("pods", "web-0", grace_s=0)
        cluster.pod("web-0", cpu=2)

    leader.script.next("binding", just_before(replace), about="web-0")
    old = cluster.pod("web-0")["metadata"]["uid"]
    await cluster.until(lambda: cluster.where("web-0") == "n1")

    first, second = cluster.requests("binding", "web-0")
    assert (first.decoded()["metadata"]["uid"], first.status) == (old, 409)
    assert (second.decoded()["metadata"]["uid"], second.status) == (cluster.uid("web-0"), 201)
    assert old not in leader.scheduler.cluster.pods


@run_with(play)
async def test_07_pod_bound_first_by_another_scheduler_is_counted_not_rebound(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    leader = await cluster.lead()

    def overtake() -> None:
        cluster.bind_as_other("a", "n2")

    leader.script.next("binding", just_before(overtake), about="a")
    cluster.pod("a", cpu=2, nodeSelector={"kubernetes.io/hostname": "n1"})
    await cluster.until(lambda: cluster.where("a"))
    await cluster.sleep(30)
    assert len(cluster.targets("a")) == 1
    assert leader.scheduler.core.engine.decision(cluster.uid("a")).host == "n2"
    cluster.pod("b", cpu=2)
    await cluster.until(lambda: cluster.where("b"))
    assert cluster.where("b") == "n1", "the room that was assumed for the first pod is free again"


@run_with(play)
async def test_07_pod_bound_first_by_another_is_read_back_without_watch_event(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    leader = await cluster.lead(script=lambda script: script.next("watch", stalled_after(1), about="pods"))
    leader.script.next("binding", just_before(lambda: cluster.bind_as_other("a", "n2")), about="a")
    cluster.pod("a", cpu=2, nodeSelector={"kubernetes.io/hostname": "n1"})
    await cluster.sleep(60)
    assert cluster.targets("a") == ["n1"]
    assert leader.scheduler.core.engine.decision(cluster.uid("a")).host == "n2"
    await cluster.sleep(60)


@pytest.mark.parametrize(
    "fault",
    [unanswered(), failed_after(500), failed_after(504), failed_after(503)],
    ids=["silence", "500", "504", "503"],
)
@run_with(play)
async def test_08_a_bind_without_an_answer_is_read_back_and_found_done(cluster: SimulatedCluster, /, fault):
    cluster.node("n1")
    cluster.node("n2")
    leader = await cluster.lead()
    leader.script.next("binding", fault, about="a")
    cluster.pod("a")
    await cluster.until(lambda: leader.scheduler.binder.counts.bound == 1)
    assert len(cluster.targets("a")) == 1
    assert leader.scheduler.binder.counts.unknown == 1
    await cluster.until(lambda: cluster.events("a") == ["Scheduled"])


@pytest.mark.parametrize(
    "fault", [lost(), refused(500, "InternalError", "no"), refused(504, "Timeout", "no")], ids=["silence", "500", "504"]
)
@run_with(play)
async def test_08_unanswered_bind_is_read_back_before_another_node_is_tried(cluster: SimulatedCluster, /, fault):
    cluster.node("n1", cpu=8)
    leader = await cluster.lead()
    leader.script.next("binding", fault, about="a")
    cluster.pod("a")
    await cluster.until(lambda: cluster.targets("a") == ["n1"])
    # The other node is better from now on: a scheduler that decides at once takes it.
    cluster.change_node("n1", unschedulable=True)
    cluster.node("n2", cpu=64)
    await cluster.until(lambda: cluster.where("a") == "n2")

    first, second = cluster.requests("binding", "a")
    reads = [entry for entry in cluster.requests("read", "a") if first.sent < entry.sent < second.sent]
    assert reads, "it was read back"
    assert reads[-1].arrived >= first.sent + 4 * SECOND, "and not before the first bind had lost its time"


@run_with(play)
async def test_08_bind_executed_at_the_last_moment_is_not_repeated(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    leader = await cluster.lead()
    leader.script.next("binding", slow(3.9), about="a")
    cluster.pod("a")
    await cluster.until(lambda: cluster.targets("a") == ["n1"])
    cluster.node("n2", cpu=64)
    await cluster.until(lambda: leader.scheduler.binder.counts.bound == 1)
    assert cluster.where("a") == "n1"
    assert cluster.targets("a") == ["n1"]


@run_with(play)
async def test_08_a_connection_that_never_was_costs_only_a_try(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    leader.script.next("binding", unreachable(), about="a")
    cluster.pod("a")
    await cluster.until(lambda: cluster.where("a") == "n1")
    assert leader.scheduler.binder.counts.unknown == 0


@run_with(play, limits=ApiLimits(max_in_flight=32))
async def test_09_overloaded_server_gets_fewer_binds_and_none_before_retry_after(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    leader = await cluster.lead()
    window = leader.scheduler.binder.window
    before = window.size
    line = leader.script.next("binding", throttled(5), times=3)
    begun = cluster.now()
    for number in range(40):
        cluster.pod(f"p{number}", cpu=1)
    await cluster.until(lambda: line.played == 3)
    assert window.size < before
    await cluster.until(lambda: cluster.placed(*(f"p{number}" for number in range(40))) == 40)

    binds = cluster.requests("binding")
    throttled_at = max(entry.told_at for entry in binds if entry.told == 429)
    quiet = [entry for entry in binds if throttled_at < entry.sent < throttled_at + 5 * SECOND]
    assert quiet == [], "Retry-After is kept"
    assert any(entry.sent > begun for entry in cluster.requests("lease")), "the lease is renewed all the same"
    assert leader.leads


@run_with(play)
async def test_09_lease_is_renewed_during_throttling_and_priority_goes_first(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    leader = await cluster.lead()
    line = leader.script.next("binding", throttled(1), times=None)
    for number in range(30):
        cluster.pod(f"low{number}")
    await cluster.sleep(60)
    cluster.pod("high", priority=1000)
    await cluster.sleep(60)
    assert leader.leads
    assert line.played < 200, "a server that is out of breath is not pressed"
    renewals = cluster.requests("lease", since=cluster.now() - 20 * SECOND)
    assert len(renewals) >= 8
    line.times = 0
    healed = cluster.now()
    await cluster.until(lambda: cluster.where("high"))
    bound_before = [
        entry
        for entry in cluster.requests("binding", since=healed)
        if entry.sent < cluster.requests("binding", "high")[0].sent
    ]
    assert len(bound_before) <= 2 * leader.scheduler.binder.window.most, "only what was decided before it"
    await cluster.until(lambda: cluster.placed(*(f"low{number}" for number in range(30))) == 30)


@pytest.mark.parametrize("election", [True, False], ids=["with a lease", "without"])
def test_10_five_minute_outage_costs_few_requests_and_drains_gently(election):
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1", cpu=64)
        cluster.pod("victim", cpu=60, on="n1")
        actor = cluster.supervise()
        await cluster.until(lambda: actor.leads)
        names = [f"p{number}" for number in range(60)]
        cluster.outage.begin(300.0)
        begun = cluster.now()
        cluster.server.delete("pods", "victim", grace_s=0)
        for name in names:
            cluster.pod(name)
        cluster.pod("high", cpu=4, priority=100)
        await cluster.sleep(299.0)
        during = cluster.requests(since=begun)
        kinds = 15  # collections that are watched
        assert len(during) < kinds * 40 + 300, "no spin: each watch, the lease and binds back off"
        assert not cluster.requests("delete")

        await cluster.until(lambda: cluster.placed("high", *names) == 61, within_s=180)
        binds = cluster.requests("binding", since=begun + 300 * SECOND)
        at_once = max(
            sum(other.sent <= one.sent < (other.told_at or cluster.now()) for other in binds) for one in binds
        )
        assert at_once <= 16, "those who waited do not come all at once"
        assert all(len(cluster.targets(name)) <= 2 for name in names)

    play(story, election=election, limits=ApiLimits(max_in_flight=16))


@run_with(play, election=False, latency_s=0.2, limits=ApiLimits(max_in_flight=8))
async def test_10_binds_without_server_are_tried_singly_and_ever_less_often(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    await cluster.lead()
    names = [f"p{number}" for number in range(60)]
    for name in names:
        cluster.pod(name)
    await cluster.until(lambda: cluster.requests("binding"))
    cluster.outage.begin(300.0)
    await cluster.sleep(30.0)
    begun = cluster.now()
    await cluster.sleep(260.0)
    assert len(cluster.requests("binding", since=begun)) <= 30
    await cluster.until(lambda: cluster.placed(*names) == 60, within_s=180)


@run_with(play, election=False)
async def test_10_nobody_is_evicted_while_the_server_is_away(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.pod("small", cpu=2, on="n1")
    await cluster.lead()
    cluster.pod("big", cpu=2, priority=10)
    cluster.outage.begin(300.0)
    await cluster.sleep(299.0)
    assert cluster.where("small") == "n1"
    assert not [entry for entry in cluster.requests("delete") if entry.arrived]
    await cluster.until(lambda: cluster.where("big") == "n1", within_s=180)


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (422, "Invalid"), (400, "BadRequest")], ids=["403", "422", "400"]
)
@run_with(play)
async def test_11_bind_denied_by_webhook_is_retried_later_and_reported(cluster: SimulatedCluster, /, code, reason):
    cluster.node("n1", cpu=2)
    leader = await cluster.lead()
    line = leader.script.next("binding", refused(code, reason, RATE_NOTE), about="a", times=4)
    cluster.pod("a", cpu=2)
    await cluster.until(lambda: line.played == 2)
    # Nothing is held for a pod whose bind was refused: another may have its room.
    await cluster.until(lambda: RATE_NOTE in cluster.why("a"))
    assert "FailedScheduling" in cluster.events("a")
    cluster.pod("b", cpu=2, priority=1)
    await cluster.until(lambda: cluster.where("b") == "n1")
    cluster.server.delete("pods", "b")
    await cluster.until(lambda: cluster.where("a") == "n1")
    times = [entry.sent for entry in cluster.requests("binding", "a")]
    assert all(later - earlier >= SECOND // 2 for earlier, later in itertools.pairwise(times))


@run_with(play)
async def test_11_condition_denied_by_webhook_does_not_block_the_bind(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=1)
    leader = await cluster.lead()
    line = leader.script.next("status", refused(403, "Forbidden", RATE_NOTE), times=None)
    cluster.pod("a", cpu=2)
    await cluster.until(lambda: line.played)
    await cluster.sleep(60)
    assert line.played < 10, "what the server will never take is not repeated without end"
    cluster.change_node("n1", cpu=2)
    await cluster.until(lambda: cluster.where("a") == "n1")


@run_with(play)
async def test_11_news_about_a_pod_never_arrives_after_newer_news(cluster: SimulatedCluster, /):
    """Two writes of one status must not be under way at once: the first may be held up and win."""

    cluster.node("n1", cpu=1)
    leader = await cluster.lead()
    line = leader.script.next("status", slow(3.0))
    cluster.pod("a", group="team")  # its gang is not known yet
    await cluster.until(lambda: line.played)
    cluster.group("team", least=4)
    await cluster.sleep(30)
    assert "1/4 members" in cluster.why("a")


@run_with(play)
async def test_11_status_rejected_once_is_written_with_the_next_change(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=1)
    leader = await cluster.lead()
    line = leader.script.next("status", refused(403, "Forbidden", RATE_NOTE))
    cluster.pod("a", cpu=2)
    await cluster.until(lambda: line.played)
    await cluster.sleep(20)
    cluster.node("n2", cpu=1)
    await cluster.until(lambda: cluster.why("a").startswith("0/2 nodes"), within_s=600)
