import asyncio
import os
import subprocess
import sys
from random import Random

import pytest

from hostler.kube.memory import ApiServer, DisruptionController, Kubelet
from hostler.kube.memory.virtual_time import run_simulation
from hostler.runtime.transport import TransportError
from tests.kube.memory.api_requests import PODS, bind, events, node, pod, send, watch
from tests.kube.memory.faults import FaultRates, FaultyTransport

RATES = FaultRates(lost=0.1, unanswered=0.1, delayed=0.2, failed_after=0.1, doubled=0.1, cut=0.2, outages=0.02)


async def _follow(transport):
    while True:
        try:
            _, listed = await send(transport, "GET", PODS)
            await events(await watch(transport, listed["metadata"]["resourceVersion"], "&timeoutSeconds=60"))
        except (TransportError, KeyError):
            await asyncio.sleep(1)


async def _place(transport, name, to):
    while True:
        try:
            _, made = await send(transport, "POST", PODS, pod(name))
            await bind(transport, name, made["metadata"].get("uid", ""), to)
            return
        except TransportError:
            await asyncio.sleep(0.5)


async def _story(seed):
    server = ApiServer()
    Kubelet(server)
    DisruptionController(server)
    for number in range(4):
        server.put(node(f"n{number}"))
    transport = FaultyTransport(server.transport(), RATES, Random(seed))
    async with asyncio.TaskGroup() as group:
        followers = [group.create_task(_follow(transport)) for _ in range(3)]
        places = [group.create_task(_place(transport, f"p{number}", f"n{number % 4}")) for number in range(12)]
        await asyncio.wait(places)
        for follower in followers:
            follower.cancel()
    return [(entry.path, entry.sent, entry.committed, entry.status, entry.told) for entry in server.log]


def tell(seed):
    return run_simulation(lambda: _story(seed), seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_is_the_same_in_another_process(seed):
    here = repr(tell(seed))
    for hashes in ("1", "2"):
        code = f"from tests.kube.memory.test_repeatable import tell; print(repr(tell({seed})))"
        environment = {**os.environ, "PYTHONHASHSEED": hashes}
        there = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert there.stdout.strip() == here
    assert repr(tell(seed + 2)) != here
