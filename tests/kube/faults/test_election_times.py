"""The lease in unusual moments: released during the hold, held for years, lost responses, tasks that die."""

import asyncio

import pytest

from hostler.errors import InternalError
from hostler.kube.api.reflector import ObjectUpdate
from hostler.kube.api.resources import PODS
from hostler.kube.settings import Election
from hostler.model import Bind
from hostler.runtime.transport import Request
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import Fault, ScriptedTransport, unanswered
from tests.kube.faults.simulated_cluster import SECOND, SimulatedCluster, play

LEASE = Election().name
BIND_S = 4.0


def _lease(cluster: SimulatedCluster):
    return cluster.server.get("leases", LEASE, "kube-system")


def _holder(cluster: SimulatedCluster) -> str:
    lease = _lease(cluster)
    return lease["spec"]["holderIdentity"] if lease is not None else ""


def _hold(cluster: SimulatedCluster, seconds: int) -> None:
    """Put a lease of a holder that never renews it."""
    spec = {"holderIdentity": "another-scheduler", "leaseDurationSeconds": seconds, "leaseTransitions": 1}
    cluster.server.put({"kind": "Lease", "metadata": {"name": LEASE, "namespace": "kube-system"}, "spec": spec})


def _unanswered_writes(times: int) -> Fault:
    """Let this many writes be executed without a response."""
    left = iter(range(times))

    async def play_it(script: ScriptedTransport, request: Request):
        if request.method == "GET" or next(left, None) is None:
            return await script.deliver(request)
        return await unanswered()(script, request)

    return play_it


@run_with(play)
async def test_stop_during_hold_releases_lease_once_no_bind_can_be_pending(cluster: SimulatedCluster, /):
    first = await cluster.lead("first")
    await cluster.crash(first)
    second = cluster.start("second")
    await cluster.until(lambda: _holder(cluster).startswith("second"))
    taken_at = cluster.now()
    assert not second.leads
    second.stop.set()
    assert await second.task == "stopped"
    assert _holder(cluster) == ""
    third = await cluster.lead("third")
    assert cluster.now() >= taken_at + int(BIND_S * SECOND)
    assert third.leads


@run_with(play)
async def test_a_lease_that_was_renewed_without_our_knowing_is_given_back_too(cluster: SimulatedCluster, /):
    first = await cluster.lead("first")
    # As by a renewal that was cut short and written all the same.
    cluster.server.change(
        "leases", LEASE, lambda item: {**item, "spec": {**item["spec"], "acquireTime": None}}, "kube-system"
    )
    first.stop.set()
    assert await first.task == "stopped"
    assert _holder(cluster) == ""


@run_with(play)
async def test_a_lease_whose_taking_had_no_answer_is_given_back_too(cluster: SimulatedCluster, /):
    _hold(cluster, 15)
    actor = cluster.start(script=lambda script: script.next("lease", _unanswered_writes(100), times=None))
    await cluster.until(lambda: _holder(cluster).startswith("one"))
    actor.script.lines.clear()
    actor.stop.set()
    assert await actor.task == "stopped"
    assert _holder(cluster) == ""


@run_with(play)
async def test_lease_taken_without_answer_is_held_as_long_as_any_other(cluster: SimulatedCluster, /):
    _hold(cluster, 15)
    actor = cluster.start(script=lambda script: script.next("lease", _unanswered_writes(1), times=None))
    await cluster.until(lambda: _holder(cluster).startswith("one"))
    taken_at = cluster.now()
    await cluster.until(lambda: actor.leads)
    assert cluster.now() >= taken_at + int(BIND_S * SECOND) - SECOND // 10


@pytest.mark.parametrize("seconds", [2**31 - 1, 10**6])
@run_with(play)
async def test_lease_held_for_years_is_reported_and_taken_over_in_time(cluster: SimulatedCluster, /, seconds):
    _hold(cluster, seconds)
    actor = cluster.start()
    await cluster.sleep(1800)
    assert _holder(cluster) == "another-scheduler"
    assert f"another-scheduler holds it for {seconds} s" in actor.scheduler.mandate.last_error
    await cluster.until(lambda: actor.leads, within_s=3600)
    assert actor.scheduler.mandate.last_error == ""


@run_with(play)
async def test_a_lease_of_some_minutes_is_respected_although_ours_is_shorter(cluster: SimulatedCluster, /):
    _hold(cluster, 300)
    actor = cluster.start()
    await cluster.sleep(290)
    assert _holder(cluster) == "another-scheduler"
    await cluster.until(lambda: actor.leads)


@run_with(play)
async def test_a_holder_that_renews_keeps_a_lease_of_any_length(cluster: SimulatedCluster, /):
    _hold(cluster, 2**31 - 1)
    actor = cluster.start()
    for number in range(5):
        await cluster.sleep(1200)

        def renew(item, number=number):
            return {**item, "spec": {**item["spec"], "leaseTransitions": number + 2}}

        cluster.server.change("leases", LEASE, renew, "kube-system")
    assert _holder(cluster) == "another-scheduler"
    assert not actor.leads
    actor.stop.set()
    await actor.task


# -- tasks that die ------------------------------------------------------------------------------------------------


async def _die(*args, **more):
    raise KeyError("no such thing")


def _break_reflector(scheduler):
    reflector = scheduler.reflectors["Pod"]
    reflector.run = _die
    scheduler._relist(reflector)


def _break_turns(scheduler):
    scheduler.core._driver = None
    scheduler.loop.wake()


def _break_comparer(scheduler):
    scheduler.comparer.compare = _die
    scheduler.comparer.ask()


def _break_lease(scheduler):
    scheduler.mandate._renew = _die


def _break_binder(scheduler):
    scheduler.binder._on_bound = None


@pytest.mark.parametrize(
    ("wreck", "name"),
    [
        (_break_reflector, "following Pod"),
        (_break_turns, "deciding"),
        (_break_comparer, "comparing"),
        (_break_lease, "keeping the lease"),
        (_break_binder, "carrying out a decision"),
    ],
    ids=["a reflector", "the loop", "the comparer", "the lease", "a bind"],
)
@run_with(play)
async def test_dead_task_ends_the_scheduler_with_error_and_releases_lease(cluster: SimulatedCluster, /, wreck, name):
    cluster.node("n1")
    actor = await cluster.lead("first")
    cluster.pod("web")
    await cluster.until(lambda: cluster.where("web"))
    wreck(actor.scheduler)
    cluster.pod("more")
    async with asyncio.timeout(60):
        with pytest.raises(InternalError, match=f"{name} ended: ") as caught:
            await actor.task
    assert caught.value.hint
    assert caught.value.__cause__ is not None
    assert _holder(cluster) == ""
    cluster.pod("late")
    await cluster.lead("second")
    await cluster.until(lambda: cluster.where("late"))


@run_with(play)
async def test_dead_task_before_sync_ends_the_scheduler_too(cluster: SimulatedCluster, /):
    actor = cluster.start()
    actor.scheduler.reflectors["Node"].run = _die  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        with pytest.raises(InternalError, match="following Node ended: KeyError"):
            await actor.task
    assert _holder(cluster) == ""


@run_with(play, is_clean=False)
async def test_a_pod_that_is_gone_before_its_bind_begins_leaves_nothing_behind(cluster: SimulatedCluster, /):
    cluster.node("n1")
    actor = await cluster.lead()
    scheduler = actor.scheduler
    cluster.pod("web", cpu=100)  # too large, so that nobody else binds it
    uid = cluster.uid("web")
    await cluster.until(lambda: uid in scheduler.cluster.pods)
    scheduler.binder.submit(Bind(uid=uid, guest="web", seq=0, host="n1"))
    gone = scheduler.reflectors["Pod"].store["default", "web"]
    scheduler.loop.observe(PODS, [ObjectUpdate(("default", "web"), gone, None)])
    await cluster.sleep(30)
    assert (scheduler.binder.backlog, scheduler.binder.in_flight) == (0, 0)
    assert not actor.task.done()


@run_with(play)
async def test_lease_transition_counter_restarts_at_its_maximum(cluster: SimulatedCluster, /):
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 2**31 - 1}
    cluster.server.put({"kind": "Lease", "metadata": {"name": LEASE, "namespace": "kube-system"}, "spec": spec})
    first = await cluster.lead("first")
    assert _lease(cluster)["spec"]["leaseTransitions"] == 0
    await cluster.crash(first)
    await cluster.lead("second")
    assert _lease(cluster)["spec"]["leaseTransitions"] == 1
