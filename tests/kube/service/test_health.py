"""Alive and ready: a stuck engine is noticed, a busy one is accepted, a standby is ready."""

from __future__ import annotations

import asyncio
import random

from hostler.kube.api.client import KubeClient
from hostler.kube.configuration import default_settings
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.health import HealthMonitor
from tests.kube.service.service_in_process import node, pod, scheduling, server_with


class Slow:
    """An engine's thread that needs so many seconds for each piece of work."""

    def __init__(self, seconds):
        self.seconds = seconds

    async def run(self, work):
        await asyncio.sleep(self.seconds)
        return work()

    def close(self):
        pass


def watched(executor, seconds):
    """Return why a scheduler is dead after this many seconds, by its health."""

    async def main():
        server = server_with(node("n"), pod("a"))
        scheduler = Scheduler(
            KubeClient(server.transport()), default_settings(), clock=SimClock(), executor=executor, identity="me",
            random=random.Random(1),
        )  # fmt: skip
        health = HealthMonitor(scheduler, executor, SimClock())
        stop = asyncio.Event()
        tasks = [asyncio.ensure_future(scheduler.run(stop)), asyncio.ensure_future(health.watch())]
        await asyncio.sleep(seconds)
        why = health.why_dead()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return why

    return run_simulation(main, seed=1)


def test_an_engine_that_does_not_come_back_is_dead_after_half_a_minute():
    assert watched(Slow(10_000), 25) == ""
    assert watched(Slow(10_000), 60) == "the engine has not responded for 60 s"


def test_a_slow_engine_is_alive():
    assert watched(Slow(12), 300) == ""


def test_an_idle_scheduler_is_alive_for_hours():
    assert watched(Slow(0), 6000) == ""


def test_a_standby_is_ready_and_says_that_it_is_one():
    server = server_with(node("n"))
    lease = {"holderIdentity": "another", "leaseDurationSeconds": 15}
    server.put({"kind": "Lease", "metadata": {"name": "hostler-scheduler", "namespace": "kube-system"}, "spec": lease})

    async def main():
        async with scheduling(server, wait=False) as pages:
            return await pages.get("/readyz", ""), await pages.get("/livez", "")

    (status, text), live = asyncio.run(main())
    assert status == 200
    assert text.startswith("ok, standby")
    assert live == (200, "ok")


def test_scheduler_without_list_right_is_not_ready_and_names_the_right():
    server = server_with(node("n"))
    server.permissions.denied.add(("hostler", "list", "nodes"))

    async def main():
        async with scheduling(server, wait=False) as pages:
            while not pages.scheduler.reflectors["Node"].last_error:
                await asyncio.sleep(0.01)
            return await pages.get("/readyz", "")

    status, text = asyncio.run(main())
    assert status == 503
    assert text.startswith("waiting for the lists of nodes: not allowed to list nodes")
