"""Fault 31 of the catalogue: a mistake of our own, such as a fact or a bind that is forgotten, is found and healed."""

import asyncio
from random import Random

import pytest

from hostler.kube.api.client import Client
from hostler.kube.api.reflector import Reflector
from hostler.kube.api.resources import PODS
from hostler.kube.memory import ApiServer
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.kube.scheduler.comparer import Comparer, follow
from hostler.kube.scheduler.executor import Inline
from hostler.model import GuestArrived, GuestBound, GuestLeft, HostJoined, HostLeft
from tests.kube.faults.script import unreachable
from tests.kube.faults.stage import Stage, play


def _comparer(leader, said=None, doubted=None):
    scheduler = leader.scheduler
    return Comparer(
        Client(leader.script),
        scheduler.reflectors,
        scheduler.loop,
        scheduler.binder,
        Inline(),
        relist=(doubted if doubted is not None else []).append,
        say=(said if said is not None else []).append,
    )


def _forget(leader, kind):
    """Lose the next fact of a kind on its way to the engine: the bug that this is all about."""
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


def test_31_nothing_is_found_where_nothing_is_wrong_however_much_goes_on():
    async def story(stage: Stage) -> None:
        for number in range(3):
            stage.node(f"n{number}", cpu=16)
        leader = await stage.lead()
        said: list[str] = []
        comparer = _comparer(leader, said)
        comparing = asyncio.ensure_future(comparer.run(every_s=0.7))
        for number in range(120):
            stage.pod(f"p{number}", grace_s=1)
            if number > 20:
                stage.server.delete("pods", f"p{number - 20}")
            if number % 10 == 0:
                stage.change_node(f"n{number % 3}", unschedulable=number % 20 == 0)
            await stage.sleep(0.23)
        comparing.cancel()
        assert comparer.counts.rounds > 3
        assert comparer.last == ()
        assert (comparer.counts.found, said) == (0, [])

    play(story)


def test_31_a_bind_that_was_forgotten_is_found_and_the_pod_is_placed():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        binder = leader.scheduler.binder
        submit = binder.submit
        binder.submit = lambda bind: None  # type: ignore[method-assign]
        stage.pod("a")
        await stage.sleep(400)
        assert not stage.where("a"), "nothing else would ever help it"
        binder.submit = submit  # type: ignore[method-assign]
        (found,) = await _comparer(leader).compare()
        assert (found.copy, found.should_be, found.is_now) == ("engine", "waiting", "assumed on n1")
        await stage.until(lambda: stage.where("a") == "n1")

    play(story)


def test_31_an_arrival_that_was_forgotten_is_found():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        lost = _forget(leader, GuestArrived)
        stage.pod("a")
        await stage.until(lambda: lost)
        await stage.sleep(400)
        assert not stage.where("a")
        assert len(await _comparer(leader).compare()) == 1
        await stage.until(lambda: stage.where("a") == "n1")
        assert await _comparer(leader).compare() == ()

    play(story)


def test_31_room_of_a_pod_whose_end_was_forgotten_is_given_back():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=2)
        leader = await stage.lead()
        stage.pod("old", cpu=2)
        await stage.until(lambda: stage.runs("old"))
        lost = _forget(leader, GuestLeft)
        stage.server.delete("pods", "old")
        await stage.until(lambda: lost)
        stage.pod("new", cpu=2)
        await stage.sleep(400)
        assert not stage.where("new")
        (found,) = await _comparer(leader).compare()
        assert (found.should_be, found.is_now) == ("nothing", "bound on n1")
        await stage.until(lambda: stage.where("new") == "n1")

    play(story)


def test_31_an_outcome_that_was_forgotten_leaves_no_pod_assumed_for_ever():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        lost = _forget(leader, GuestBound)
        stage.pod("a")
        await stage.until(lambda: lost)
        await stage.sleep(30)
        await _comparer(leader).compare()
        await stage.sleep(5)
        assert leader.scheduler.core.engine.decision(stage.uid("a")).host == "n1"
        assert await _comparer(leader).compare() == ()

    play(story)


@pytest.mark.parametrize("kind", [HostJoined, HostLeft])
def test_31_a_node_whose_coming_or_going_was_forgotten_is_found(kind):
    async def story(stage: Stage) -> None:
        stage.node("n0", cpu=1)
        leader = await stage.lead()
        lost = _forget(leader, kind)
        if kind is HostJoined:
            stage.node("n1", cpu=8)
        else:
            stage.server.delete("nodes", "n0", "")
        await stage.until(lambda: lost)
        (found,) = await _comparer(leader).compare()
        assert found.what == f"node {'n1' if kind is HostJoined else 'n0'}"
        await stage.sleep(1)
        known = {host.name for host in leader.scheduler.core.engine.hosts()}
        assert known == {node["metadata"]["name"] for node in stage.server.objects("nodes")}

    play(story)


def test_31_a_collection_that_lost_an_object_is_listed_anew():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        stage.pod("a")
        await stage.until(lambda: stage.runs("a"))
        pods = leader.scheduler.reflectors["Pod"]
        kept = pods.store.pop(("default", "a"))
        doubted: list[object] = []
        found = await _comparer(leader, doubted=doubted).compare()
        assert doubted == [pods]
        assert [(one.copy, one.what, one.is_now) for one in found] == [("collection", "pod default/a", "nothing")]
        assert stage.uid("a") in leader.scheduler.world.pods, "nobody forgets a pod because a wrong copy does"
        pods.store[("default", "a")] = kept

    play(story, is_clean=False)


def test_31_a_reflector_that_is_doubted_lists_again_and_tells_only_what_was_wrong():
    async def main():
        server = ApiServer()
        told: list[tuple[str, bool]] = []
        for name in ("a", "b"):
            server.put({"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": []}})
        reflector = Reflector(
            Client(server.transport()),
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

    run_simulation(main, 1)


def test_31_a_comparison_that_the_server_does_not_answer_is_said_and_made_again():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        leader = await stage.lead()
        said: list[str] = []
        comparer = _comparer(leader, said)
        comparing = asyncio.ensure_future(comparer.run(every_s=1000.0))
        leader.script.next("read", unreachable(), about="pods")
        comparer.ask()
        await stage.until(lambda: said)
        assert said == ["nothing was compared: connection refused"]
        comparer.ask()
        await stage.until(lambda: len(said) == 2)
        assert said[1] == "what we believe is what the API server shows"
        comparing.cancel()

    play(story)
