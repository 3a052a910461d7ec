"""Faults 1 to 5 of the catalogue: watches that break, stall, expire, miss deletions and repeat events."""

import pytest

from hostler.model import PreemptionRules
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import (
    cut_after,
    doubled,
    expired_watch,
    lost,
    refused,
    stalled_after,
    unreachable,
)
from tests.kube.faults.simulated_cluster import SECOND, SimulatedCluster, play

PODS, NODES = "pods", "nodes"


def _version_of(entry):
    return int(entry.call.query["resourceVersion"]) if entry.call.is_watch else 0


@pytest.mark.parametrize("events", [0, 1, 2])
@run_with(play)
async def test_01_a_broken_watch_goes_on_where_it_was_and_nothing_is_done_twice(cluster: SimulatedCluster, /, events):
    cluster.node("n1")
    cut = []
    leader = await cluster.lead(script=lambda script: cut.append(script.next("watch", cut_after(events), about=PODS)))
    for name in ("a", "b", "c"):
        cluster.pod(name)
    await cluster.until(lambda: cluster.placed("a", "b", "c") == 3)
    await cluster.sleep(2.0)

    assert cut[0].played == 1
    assert [len(cluster.targets(name)) for name in ("a", "b", "c")] == [1, 1, 1]
    assert leader.scheduler.reflectors["Pod"].relists == 0, "a watch that breaks needs no new list"
    first, second = cluster.requests("watch", PODS)[:2]
    assert _version_of(second) >= _version_of(first)
    assert second.sent - first.sent <= 2 * SECOND


@run_with(play)
async def test_01_a_server_that_takes_no_watch_is_asked_ever_more_rarely(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    refusing = leader.script.next("watch", unreachable(), about=PODS, times=None)
    leader.script.next("watch", cut_after(0), about=NODES)
    cluster.server.bookmark_s = 1e9
    begun = cluster.now()
    for answer in list(leader.script.outage._streams):
        answer.abort()
    await cluster.sleep(600)
    assert 600 / 30 <= refusing.played <= 2 * 600 / 30 + 10
    refusing.times = 0
    cluster.pod("late")
    await cluster.until(lambda: cluster.where("late") == "n1")
    assert cluster.requests("watch", PODS, since=begun)


@run_with(play)
async def test_02_silent_watch_is_reopened_before_its_view_is_too_old(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead(script=lambda script: script.next("watch", stalled_after(0), about=PODS))
    cluster.pod("unseen")
    await cluster.sleep(60)
    assert not cluster.where("unseen"), "the stall must be real for this test to mean anything"
    assert leader.scheduler.view_age_s() > 50, "the age of the view is there for metrics and rules"
    await cluster.until(lambda: cluster.where("unseen") == "n1")
    assert leader.scheduler.view_age_s() < 60


@run_with(play, rules=PreemptionRules())
async def test_02_no_eviction_on_an_old_view_and_evictions_resume_when_fresh(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.pod("small", cpu=2, on="n1")
    leader = await cluster.lead(script=lambda script: script.next("watch", stalled_after(0), about=NODES))
    # The nodes' watch is silent, and every way to a fresh view is closed for a while.
    closed = [
        leader.script.next("watch", lost(), about=NODES, times=None),
        leader.script.next("read", lost(), about=NODES, times=None),
    ]
    await cluster.sleep(110)
    assert leader.scheduler.view_age_s() > 100
    cluster.pod("big", cpu=2, priority=10)
    await cluster.sleep(120)
    assert leader.scheduler.executors.evictor.backlog == 1, "the engine wants the eviction, and it is held back"
    assert cluster.evicted("small") == 0

    for line in closed:
        line.times = 0
    await cluster.until(lambda: cluster.where("big") == "n1")
    assert cluster.evicted("small") == 1


@pytest.mark.parametrize("as_event", [True, False], ids=["an event says so", "the answer says so"])
@run_with(play)
async def test_03_an_expired_version_means_a_new_list_and_placing_goes_on(cluster: SimulatedCluster, /, as_event):
    cluster.node("n1")
    leader = await cluster.lead(script=lambda script: script.next("watch", cut_after(1), about=PODS))
    leader.script.next("watch", expired_watch(as_event=as_event), about=PODS)
    cluster.pod("a")
    await cluster.until(lambda: cluster.where("a"))
    await cluster.until(lambda: leader.scheduler.reflectors["Pod"].relists == 1)
    cluster.pod("b")
    await cluster.until(lambda: cluster.where("b"))
    assert cluster.targets("a") == ["n1"]


@run_with(play)
async def test_03_server_that_lists_but_denies_watches_is_not_listed_in_a_loop(cluster: SimulatedCluster, /):
    cluster.node("n1")

    def script(transport):
        transport.next("watch", expired_watch(as_event=False), about=PODS, times=None)

    await cluster.lead(script=script)
    begun = cluster.now()
    await cluster.sleep(300)
    assert len(cluster.requests("read", PODS, since=begun)) < 30


@run_with(play)
async def test_04_pod_deleted_during_a_watch_gap_is_found_by_the_next_list(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    cluster.pod("old", cpu=2, on="n1")
    leader = await cluster.lead()
    cluster.pod("new", cpu=2)
    await cluster.until(lambda: cluster.why("new"))

    cluster.outage.begin(6.0)
    cluster.server.delete("pods", "old", grace_s=0)
    cluster.server.compact()  # the deletion can never be told as an event
    await cluster.until(lambda: cluster.where("new") == "n1")
    assert leader.scheduler.reflectors["Pod"].relists >= 1


@run_with(play)
async def test_04_a_node_deleted_while_nobody_watched_is_given_nothing_more(cluster: SimulatedCluster, /):
    cluster.node("gone", cpu=8)
    leader = await cluster.lead()
    cluster.outage.begin(6.0)
    cluster.server.delete("nodes", "gone", "")
    cluster.server.compact()
    await cluster.sleep(7.0)
    await cluster.until(lambda: not leader.scheduler.cluster.hosts)
    cluster.pod("a")
    await cluster.until(lambda: cluster.why("a"))
    assert cluster.targets("a") == []


@run_with(play)
async def test_05_events_that_come_twice_and_in_the_wrong_order_change_nothing(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=3)

    def script(transport):
        transport.next("watch", doubled(), about=PODS, times=None)
        transport.next("watch", doubled(), about=NODES, times=None)

    leader = await cluster.lead(script=script)
    for name in ("a", "b", "c", "d"):
        cluster.pod(name)
    await cluster.until(lambda: cluster.placed("a", "b", "c", "d") == 3)
    waiting = next(name for name in ("a", "b", "c", "d") if not cluster.where(name))
    cluster.server.delete("pods", next(name for name in ("a", "b", "c", "d") if cluster.where(name)))
    await cluster.until(lambda: cluster.where(waiting) == "n1")
    assert max(len(cluster.targets(name)) for name in ("a", "b", "c", "d")) == 1
    assert leader.scheduler.core.engine.view.queue_length == 0


@run_with(play)
async def test_05_a_refused_list_is_tried_again_until_it_works(cluster: SimulatedCluster, /):
    cluster.node("n1")
    cluster.pod("a")
    cluster.start(script=lambda script: script.next("read", refused(500, "InternalError", "no"), about=PODS, times=3))
    await cluster.until(lambda: cluster.where("a") == "n1")
