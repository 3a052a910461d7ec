"""Faults 17, 18, 19 and 32 of the catalogue: lost leases, clocks that jump, crashes, and stop requests."""

import pytest

from hostler.kube.settings import ApiLimits, GangRules
from hostler.runtime.clock import SteadyClock
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import lost, slow, throttled, unanswered
from tests.kube.faults.simulated_cluster import SECOND, SimulatedCluster, play

RENEW_S, LEASE_S, BIND_S = 10, 15, 4


def _lease(cluster):
    return cluster.server.get("leases", "hostler-scheduler", "kube-system")["spec"]


def _renewals(cluster, holder):
    """Return when the server accepted the renewals of a holder."""
    return [
        entry.committed
        for entry in cluster.requests("lease")
        if entry.committed is not None and entry.decoded()["spec"]["holderIdentity"].startswith(holder)
    ]


@run_with(play)
async def test_17_leader_that_cannot_renew_sends_no_bind_past_its_deadline(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    first = await cluster.lead("first")
    first.script.next("lease", lost(), times=None)
    first.script.next("binding", slow(1.0), times=None)
    for number in range(60):
        cluster.pod(f"p{number}")
    ending = await first.task
    assert ending == "lost"
    last_renewal = max(_renewals(cluster, "first"))
    binds = cluster.requests("binding")
    assert len(binds) > 4, "it was in the middle of binding"
    assert max(entry.sent for entry in binds) < last_renewal + RENEW_S * SECOND
    assert max(entry.committed or 0 for entry in binds) < last_renewal + LEASE_S * SECOND


@run_with(play)
async def test_17_new_leader_waits_out_old_binds_and_lists_after_its_lease_write(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    first = await cluster.lead("first")
    second = cluster.start("second")
    await cluster.sleep(5)
    first.script.next("lease", lost(), times=None)
    first.script.next("binding", slow(3.0), times=None)
    for number in range(30):
        cluster.pod(f"p{number}")
    await cluster.until(lambda: second.leads)
    names = [f"p{number}" for number in range(30)]
    await cluster.until(lambda: cluster.placed(*names) == 30)

    old, taken = max(_renewals(cluster, "first")), min(_renewals(cluster, "second"))
    assert taken >= old + LEASE_S * SECOND
    lists = [entry for entry in cluster.requests("read", "pods") if entry.sent > taken]
    assert lists[0].sent >= taken + BIND_S * SECOND, "what the old leader sent last has timed out by then"
    between = [entry for entry in cluster.requests("binding") if old + RENEW_S * SECOND <= entry.sent < lists[0].sent]
    assert between == []
    assert first.task.done()


@run_with(play)
async def test_17_process_paused_for_a_minute_does_no_harm_when_it_resumes(cluster: SimulatedCluster, /):
    """A pause of the whole process is played by its connection: what it sent leaves a minute later."""

    cluster.node("n1", cpu=2)
    first = await cluster.lead("first")
    second = cluster.start("second")
    await cluster.sleep(3)
    first.script.freeze()
    cluster.pod("a", cpu=2)
    await cluster.sleep(60)
    assert second.leads
    assert cluster.where("a") == "n1"
    cluster.pod("b", cpu=2)
    first.script.thaw()
    await cluster.sleep(30)
    assert not cluster.where("b")
    assert _lease(cluster)["holderIdentity"] == "second-1"
    assert first.task.done()
    assert second.leads


async def test_18_scheduler_clock_ignores_changes_of_the_wall_clock(monkeypatch):
    wall = [1_700_000_000 * SECOND]
    monkeypatch.setattr("hostler.runtime.clock.time.time_ns", lambda: wall[0])
    clock = SteadyClock()
    start = clock.now()
    assert abs(start - wall[0]) < SECOND
    for jump_s in (3600, -7200, 86_400):
        wall[0] += jump_s * SECOND
        assert 0 <= clock.now() - start < 60 * SECOND


@run_with(play)
async def test_18_rival_with_skewed_clock_neither_steals_nor_keeps_the_lease(cluster: SimulatedCluster, /):
    cluster.node("n1")
    first = await cluster.lead("first")

    def skew(seconds: int):
        def how(item):
            spec = {**item["spec"], "renewTime": f"2026-01-05T{9 + seconds // 3600:02d}:00:00.000000Z"}
            return {**item, "spec": spec}

        return how

    second = cluster.start("second")
    for seconds in (3600, -3600, 7200):  # what is written in the lease comes from some other clock
        cluster.server.change("leases", "hostler-scheduler", skew(seconds), "kube-system")
        await cluster.sleep(20)
        assert first.leads
        assert not second.leads
    await cluster.crash(first)
    cluster.server.change("leases", "hostler-scheduler", skew(10 * 3600), "kube-system")
    begun = cluster.now()
    await cluster.until(lambda: second.leads)
    assert LEASE_S * SECOND <= cluster.now() - begun <= (LEASE_S + BIND_S + 6) * SECOND


@pytest.mark.parametrize("bound", [1, 2, 3])
@run_with(play, limits=ApiLimits(max_in_flight=8))
async def test_19_a_gang_that_a_crash_left_half_bound_is_completed(cluster: SimulatedCluster, /, bound):
    for number in range(4):
        cluster.node(f"n{number}", cpu=2)
    first = await cluster.lead("first")
    cluster.group("team", least=4)
    held = [first.script.next("binding", lost(), about=f"m{number}", times=None) for number in range(bound, 4)]
    for number in range(4):
        cluster.pod(f"m{number}", cpu=2, group="team")
    await cluster.until(lambda: all(line.played for line in held))
    members = [f"m{number}" for number in range(4)]
    assert cluster.placed(*members) == bound
    await cluster.crash(first)

    await cluster.lead("second")
    await cluster.until(lambda: cluster.placed(*members) == 4)
    for name in members[:bound]:
        assert len(cluster.targets(name)) == 1, "who is bound is not bound again"


@run_with(play)
async def test_19_half_bound_gang_waits_with_reason_and_completes_with_room(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    first = await cluster.lead("first")
    cluster.group("team", least=2)
    first.script.next("binding", lost(), about="m1", times=None)
    cluster.pod("m0", cpu=2, group="team")
    cluster.pod("m1", cpu=2, group="team")
    await cluster.until(lambda: cluster.where("m0") and cluster.targets("m1"))
    await cluster.crash(first)
    cluster.server.delete("nodes", next(node for node in ("n1", "n2") if node != cluster.where("m0")), "")

    await cluster.lead("second")
    await cluster.until(lambda: "Insufficient cpu" in cluster.why("m1"))
    await cluster.sleep(60)
    assert cluster.placed("m0", "m1") == 1
    cluster.node("n3", cpu=2)
    await cluster.until(lambda: cluster.where("m1") == "n3")


@pytest.mark.parametrize("points", range(40, 130, 6))
def test_19_next_process_finishes_the_gang_after_a_crash_at_any_point(points):
    async def story(cluster: SimulatedCluster) -> None:
        for number in range(3):
            cluster.node(f"n{number}", cpu=2)
        cluster.group("team", least=3)
        for number in range(3):
            cluster.pod(f"m{number}", cpu=2, group="team")
        first = cluster.start("first")
        first.script.crash_after(points)
        await cluster.sleep(10)
        await cluster.crash(first)
        await cluster.lead("second")
        await cluster.until(lambda: cluster.placed("m0", "m1", "m2") == 3)

    play(story, seed=points)


@run_with(play, limits=ApiLimits(max_in_flight=4))
async def test_32_stopping_scheduler_finishes_sent_binds_and_releases_lease(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    first = await cluster.lead("first")
    first.script.next("binding", slow(2.0), times=None)
    names = [f"p{number}" for number in range(40)]
    for name in names:
        cluster.pod(name)
    await cluster.until(lambda: len(cluster.requests("binding")) == 4)
    told = cluster.now()
    first.stop.set()
    assert await first.task == "stopped"
    assert (cluster.now() - told) / SECOND < 30, "well within the grace period that a pod has"
    assert [entry for entry in cluster.requests("binding") if entry.sent > told + SECOND] == []
    assert cluster.placed(*names) == len(cluster.requests("binding")) == 4
    assert _lease(cluster)["holderIdentity"] == ""
    events = [event for event in cluster.server.objects("events") if event["reason"] == "Scheduled"]
    assert len(events) == 4

    begun = cluster.now()
    await cluster.lead("second")
    assert cluster.now() - begun < 5 * SECOND, "a lease that was given back is not waited for"
    await cluster.until(lambda: cluster.placed(*names) == 40)


@pytest.mark.parametrize("fault", [unanswered(), lost(), throttled(3)], ids=["done unseen", "lost", "turned away"])
@run_with(play)
async def test_32_stop_during_an_unanswered_bind_leaves_nothing_open(cluster: SimulatedCluster, /, fault):
    cluster.node("n1")
    first = await cluster.lead("first")
    line = first.script.next("binding", fault, about="a", times=None)
    cluster.pod("a")
    await cluster.until(lambda: line.played)
    first.stop.set()
    assert await first.task == "stopped"
    await cluster.lead("second")
    await cluster.until(lambda: cluster.where("a") == "n1")


@run_with(play)
async def test_32_a_scheduler_that_never_got_the_lease_stops_at_once(cluster: SimulatedCluster, /):
    await cluster.lead("first")
    second = cluster.start("second")
    await cluster.sleep(5)
    second.stop.set()
    assert await second.task == "stopped"
    assert _lease(cluster)["holderIdentity"] == "first-0"


@run_with(play, gangs=GangRules(when_broken="release_after", release_after_s=30.0))
async def test_19_half_bound_gang_is_released_if_its_rule_says_so(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.node("n2", cpu=2)
    first = await cluster.lead("first")
    cluster.group("team", least=2)
    first.script.next("binding", lost(), about="m1", times=None)
    cluster.pod("m0", cpu=2, group="team")
    cluster.pod("m1", cpu=2, group="team")
    await cluster.until(lambda: cluster.where("m0") and cluster.targets("m1"))
    await cluster.crash(first)
    free = next(node for node in ("n1", "n2") if node != cluster.where("m0"))
    cluster.server.delete("nodes", free, "")

    await cluster.lead("second")
    await cluster.until(lambda: cluster.server.get("pods", "m0") is None)
    assert cluster.evicted("m0") == 1
    await cluster.until(lambda: cluster.why("m1"))
