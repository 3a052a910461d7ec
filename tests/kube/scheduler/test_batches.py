"""Under load, facts are batched while enough binds wait to be sent, and events give way to binds."""

from __future__ import annotations

import asyncio

import pytest

from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.kube.scheduler.actions.pressure import Breaker
from hostler.kube.scheduler.actions.write_queue import WriteQueue
from hostler.kube.settings import ApiLimits
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import unanswered
from tests.kube.faults.simulated_cluster import SimulatedCluster, play

PODS = 400


class CountingExecutor:
    """Works at once, and counts."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self, work):
        self.count += 1
        return work()

    def close(self) -> None:
        pass


@pytest.mark.parametrize("executor", [CountingExecutor()], ids=["counting"])
def test_a_burst_of_pods_takes_far_fewer_turns_than_binds(executor):
    async def story(cluster: SimulatedCluster) -> None:
        for number in range(40):
            cluster.node(f"n-{number}", cpu=32)
        for number in range(PODS):
            cluster.pod(f"p-{number}")
        await cluster.lead()
        await cluster.until(lambda: cluster.placed(*(f"p-{number}" for number in range(PODS))) == PODS)
        assert executor.count < PODS / 8

    play(story, executor=executor, latency_s=0.02, limits=ApiLimits(max_in_flight=32))


@run_with(play, limits=ApiLimits(max_in_flight=8))
async def test_binds_without_an_answer_do_not_keep_the_engine_from_what_is_new(cluster: SimulatedCluster, /):
    for number in range(8):
        cluster.node(f"n-{number}", cpu=64)
    for number in range(100):
        cluster.pod(f"p-{number}")
    actor = cluster.start("a")
    actor.script.next("binding", unanswered(), times=None)
    await cluster.until(lambda: actor.scheduler.is_synced and actor.scheduler.binder.has_plenty)
    before = actor.scheduler.loop.last_turn_at
    cluster.pod("late")
    await cluster.sleep(0.5)
    assert actor.scheduler.loop.last_turn_at > before
    assert actor.scheduler.binder.has_plenty
    actor.script.lines.clear()
    await cluster.until(lambda: cluster.where("late"))


@run_with(run_simulation, seed=1)
async def test_one_event_at_a_time_is_written_while_binds_wait_then_all():
    busy = True
    running, most, done = 0, {True: 0, False: 0}, 0
    trail = WriteQueue(SimClock(), most=32, is_busy=lambda: busy, may_write=lambda: True, breaker=Breaker())

    async def write() -> None:
        nonlocal running, done
        running += 1
        most[busy] = max(most[busy], running)
        await asyncio.sleep(0.1)
        running -= 1
        done += 1

    for _ in range(50):
        trail.later(write)
    await asyncio.sleep(1.05)
    assert done == 10
    assert most[True] == 1
    busy = False
    trail.pump()
    await trail.drain(60)
    assert done == 50
    assert most[False] > 1
