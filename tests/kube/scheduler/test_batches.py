"""Under load: facts gather while enough binds wait to be sent, and events give way to binds."""

from __future__ import annotations

import asyncio

import pytest

from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.kube.scheduler.pressure import Breaker
from hostler.kube.scheduler.trail import Trail
from hostler.kube.settings import Limits
from tests.kube.faults.script import unanswered
from tests.kube.faults.stage import Stage, play

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
    async def story(stage: Stage) -> None:
        for number in range(40):
            stage.node(f"n-{number}", cpu=32)
        for number in range(PODS):
            stage.pod(f"p-{number}")
        await stage.lead()
        await stage.until(lambda: stage.placed(*(f"p-{number}" for number in range(PODS))) == PODS)
        assert executor.count < PODS / 8

    play(story, executor=executor, latency_s=0.02, limits=Limits(max_in_flight=32))


def test_binds_without_an_answer_do_not_keep_the_engine_from_what_is_new():
    async def story(stage: Stage) -> None:
        for number in range(8):
            stage.node(f"n-{number}", cpu=64)
        for number in range(100):
            stage.pod(f"p-{number}")
        actor = stage.start("a")
        actor.script.next("binding", unanswered(), times=None)
        await stage.until(lambda: actor.scheduler.is_synced and actor.scheduler.binder.has_plenty)
        before = actor.scheduler.loop.last_turn_at
        stage.pod("late")
        await stage.sleep(0.5)
        assert actor.scheduler.loop.last_turn_at > before
        assert actor.scheduler.binder.has_plenty
        actor.script.lines.clear()
        await stage.until(lambda: stage.where("late"))

    play(story, limits=Limits(max_in_flight=8))


def test_one_event_at_a_time_is_written_while_binds_wait_and_all_of_them_afterwards():
    async def story() -> None:
        busy = True
        running, most, done = 0, {True: 0, False: 0}, 0
        trail = Trail(SimClock(), most=32, is_busy=lambda: busy, may_write=lambda: True, breaker=Breaker())

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

    run_simulation(story, seed=1)
