"""Fault 31 of the catalogue: a bug of ours, such as a lost fact or a forgotten bind, is found and repaired."""

import asyncio
from random import Random

import pytest

from hostler.kube.api.client import KubeClient
from hostler.kube.api.reflector import Reflector
from hostler.kube.api.resources import PODS
from hostler.kube.memory import ApiServer
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.kube.scheduler.comparer import Comparer, follow
from hostler.model import GuestArrived, GuestBound, GuestLeft, HostJoined, HostLeft
from hostler.runtime.engine_thread import InlineExecutor
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import unreachable
from tests.kube.faults.simulated_cluster import SimulatedCluster, play


def _comparer(leader, said=None, doubted=None):
    scheduler = leader.scheduler
    return Comparer(
        KubeClient(leader.script),
        scheduler.reflectors,
        scheduler.loop,
        scheduler.binder,
        InlineExecutor(),
        relist=(doubted if doubted is not None else []).append,
        say=(said if said is not None else []).append,
    )


def _forget(leader, kind):
    """Lose the next fact of a kind on its way to the engine: the simulated bug."""
    core = leader.scheduler.core
    lost: list[object] = []
    turn = core.turn

    def forgetful(events, now, limit):
        kept = []
        for event in events:
            if isinstance(event, kind) and not lost:
                lost.append(event)
            else:
                kept.append(event)
        return turn(kept, now, limit)

    core.turn = forgetful
    return lost


@run_with(play)
async def test_31_nothing_is_found_where_nothing_is_wrong_however_much_goes_on(cluster: SimulatedCluster, /):
    for number in range(3):
        cluster.node(f"n{number}", cpu=16)
    leader = await cluster.lead()
    said: list[str] = []
    comparer = _comparer(leader, said)
    comparing = asyncio.ensure_future(comparer.run(every_s=0.7))
    for number in range(120):
        cluster.pod(f"p{number}", grace_s=1)
        if number > 20:
            cluster.server.delete("pods", f"p{number - 20}")
        if number % 10 == 0:
            cluster.change_node(f"n{number % 3}", unschedulable=number % 20 == 0)
        await cluster.sleep(0.23)
    comparing.cancel()
    assert comparer.counts.rounds > 3
    assert comparer.last == ()
    assert (comparer.counts.found, said) == (0, [])


@run_with(play)
async def test_31_a_bind_that_was_forgotten_is_found_and_the_pod_is_placed(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    binder = leader.scheduler.binder
    submit = binder.submit
    binder.submit = lambda bind: None  # type: ignore[method-assign]
    cluster.pod("a")
    await cluster.sleep(400)
    assert not cluster.where("a"), "nothing else would ever help it"
    binder.submit = submit  # type: ignore[method-assign]
    (found,) = await _comparer(leader).compare()
    assert (found.copy, found.should_be, found.is_now) == ("engine", "waiting", "assumed on n1")
    await cluster.until(lambda: cluster.where("a") == "n1")


@run_with(play)
async def test_31_an_arrival_that_was_forgotten_is_found(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    lost = _forget(leader, GuestArrived)
    cluster.pod("a")
    await cluster.until(lambda: lost)
    await cluster.sleep(400)
    assert not cluster.where("a")
    assert len(await _comparer(leader).compare()) == 1
    await cluster.until(lambda: cluster.where("a") == "n1")
    assert await _comparer(leader).compare() == ()


@run_with(play)
async def test_31_room_of_a_pod_whose_end_was_forgotten_is_given_back(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=2)
    leader = await cluster.lead()
    cluster.pod("old", cpu=2)
    await cluster.until(lambda: cluster.runs("old"))
    lost = _forget(leader, GuestLeft)
    cluster.server.delete("pods", "old")
    await cluster.until(lambda: lost)
    cluster.pod("new", cpu=2)
    await cluster.sleep(400)
    assert not cluster.where("new")
    (found,) = await _comparer(leader).compare()
    assert (found.should_be, found.is_now) == ("nothing", "bound on n1")
    await cluster.until(lambda: cluster.where("new") == "n1")


@run_with(play)
async def test_31_an_outcome_that_was_forgotten_leaves_no_pod_assumed_for_ever(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    lost = _forget(leader, GuestBound)
    cluster.pod("a")
    await cluster.until(lambda: lost)
    await cluster.sleep(30)
    await _comparer(leader).compare()
    await cluster.sleep(5)
    assert leader.scheduler.core.engine.decision(cluster.uid("a")).host == "n1"
    assert await _comparer(leader).compare() == ()


@pytest.mark.parametrize("kind", [HostJoined, HostLeft])
@run_with(play)
async def test_31_a_node_whose_coming_or_going_was_forgotten_is_found(cluster: SimulatedCluster, /, kind):
    cluster.node("n0", cpu=1)
    leader = await cluster.lead()
    lost = _forget(leader, kind)
    if kind is HostJoined:
        cluster.node("n1", cpu=8)
    else:
        cluster.server.delete("nodes", "n0", "")
    await cluster.until(lambda: lost)
    (found,) = await _comparer(leader).compare()
    assert found.what == f"node {'n1' if kind is HostJoined else 'n0'}"
    await cluster.sleep(1)
    known = {host.name for host in leader.scheduler.core.engine.hosts()}
    assert known == {node["metadata"]["name"] for node in cluster.server.objects("nodes")}


@run_with(play, is_clean=False)
async def test_31_a_collection_that_lost_an_object_is_listed_again(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    cluster.pod("a")
    await cluster.until(lambda: cluster.runs("a"))
    pods = leader.scheduler.reflectors["Pod"]
    kept = pods.store.pop(("default", "a"))
    doubted: list[object] = []
    found = await _comparer(leader, doubted=doubted).compare()
    assert doubted == [pods]
    assert [(one.copy, one.what, one.is_now) for one in found] == [("collection", "pod default/a", "nothing")]
    assert cluster.uid("a") in leader.scheduler.cluster.pods, "nobody forgets a pod because a wrong copy does"
    pods.store[("default", "a")] = kept


@run_with(run_simulation, 1)
async def test_31_doubted_reflector_relists_and_reports_only_differences():
    server = ApiServer()
    told: list[tuple[str, bool]] = []
    for name in ("a", "b"):
        server.put({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": []}})
    reflector = Reflector(
        KubeClient(server.transport()),
        PODS,
        lambda _, updates: told.extend((update.key[1], update.new is not None) for update in updates),
        clock=SimClock(),
        random=Random(1),
    )
    doubt = asyncio.Event()
    running = asyncio.ensure_future(follow(reflector, doubt))
    await reflector.synced.wait()
    await asyncio.sleep(1)
    assert told == [("a", True), ("b", True)]
    reflector.store.pop(("default", "b"))
    doubt.set()
    await asyncio.sleep(1)
    assert told[2:] == [("b", True)]
    assert reflector.relists == 1
    server.put({"kind": "Pod", "metadata": {"name": "c"}, "spec": {"containers": []}})
    await asyncio.sleep(1)
    assert told[3:] == [("c", True)], "and it watches again"
    running.cancel()


@run_with(play)
async def test_31_unanswered_comparison_is_logged_and_repeated(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    said: list[str] = []
    comparer = _comparer(leader, said)
    comparing = asyncio.ensure_future(comparer.run(every_s=1000.0))
    leader.script.next("read", unreachable(), about="pods")
    comparer.ask()
    await cluster.until(lambda: said)
    assert said == ["comparison failed: connection refused"]
    comparer.ask()
    await cluster.until(lambda: len(said) == 2)
    assert said[1] == "no differences from the API server"
    comparing.cancel()
