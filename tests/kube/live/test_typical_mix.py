"""The typical mix that ``fgd`` measures by on a live cluster: scheduler, snapshot and extender agree."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from hostler.engine import BUILT_IN
from hostler.engine.journals.journal import read_journal, replay
from hostler.kube.api.client import KubeClient
from hostler.kube.extender.cluster_follower import ClusterFollower
from hostler.kube.extender.protocol import ExtenderArgs
from hostler.kube.extender.service import ExtenderService
from hostler.kube.live.snapshot import take_snapshot
from hostler.kube.memory import ApiServer
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.settings import Election, SchedulerProfile, SchedulerSettings
from hostler.manifests.pods.gpus import GPU_INDEX
from hostler.model import PolicyChanged
from hostler.queries import decide_all
from hostler.runtime.engine_thread import InlineExecutor
from tests.kube.extender.clusters import node_json, pod_json

OURS = "hostler-scheduler"
FGD = SchedulerSettings(
    profiles=(SchedulerProfile(OURS, "fgd"),), policies=(BUILT_IN["fgd"],), election=Election(is_on=False)
)  # fmt: skip
NAMES = tuple(f"node-{number}" for number in range(6))
MINUTE_S = 60.0


def running_pod(name, milli, node, device):
    """Return a pod of another scheduler that runs on a GPU."""
    made = pod_json(name, milli=milli, nodeName=node, schedulerName="default-scheduler")
    made["metadata"]["annotations"][GPU_INDEX] = str(device)
    return made


def cluster(seed):
    """Return a server with six nodes whose gpus are partly used by guests of a few sizes."""
    server, rng = ApiServer(SimClock(), latency_s=0.001), random.Random(seed)
    sizes = rng.sample((150, 200, 350, 400, 600, 700), 2)
    for number, node in enumerate(NAMES):
        server.put(node_json(node, 2))
        for device in range(2):
            if rng.random() < 0.7:
                server.put(running_pod(f"runs-{number}-{device}", rng.choice(sizes), node, device))
    return server, pod_json("new", milli=rng.choice((100, 250, 300, 500)), schedulerName=OURS)


async def until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never happened")


class Scheduling:
    """A scheduler by fgd on a server in memory, with its journal."""

    def __init__(self, server):
        self.lines: list[bytes] = []
        self.client = KubeClient(server.transport())
        self.scheduler = Scheduler(
            self.client, FGD, clock=server.clock, executor=InlineExecutor(), identity="me", random=random.Random(1),
            journal=self.lines.append,
        )  # fmt: skip
        self._stop = asyncio.Event()

    async def __aenter__(self):
        self._task = asyncio.ensure_future(self.scheduler.run(self._stop))
        await until(lambda: self.scheduler.loop.last_turn_at)
        return self

    async def __aexit__(self, *_):
        self._stop.set()
        await self._task
        await self.client.close()

    @property
    def mix(self):
        """Return the mix that the scheduler measures by."""
        return self.scheduler.core.engine.policies[0].mix

    def journal(self):
        return read_journal(self.lines)

    def changes(self):
        """Return the facts of its journal that changed policies."""
        return [
            entry.event for entry in self.journal().entries if isinstance(getattr(entry, "event", None), PolicyChanged)
        ]


async def seen_by_the_extender(server, pod):
    """Return the node that an extender by fgd keeps for a pod."""
    client = KubeClient(server.transport())
    service = ExtenderService(server.clock, bind=None, find_pod=None)
    follower = ClusterFollower(client, service, BUILT_IN["fgd"], clock=server.clock, random=random.Random(1))
    following = asyncio.ensure_future(follower.run())
    await until(lambda: service.adviser is not None)
    answer = service.filter(msgspec.convert({"Pod": pod, "NodeNames": list(NAMES)}, ExtenderArgs))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await client.close()
    assert not answer.Error
    return answer.NodeNames


async def seen_by_a_look(server):
    """Return where a snapshot of the cluster would put all waiting pods."""
    client = KubeClient(server.transport())
    view = await take_snapshot(client, FGD, server.clock.now())
    await client.close()
    return [action.host for action in decide_all(view.engine)]


@pytest.mark.parametrize("seed", range(12))
def test_scheduler_live_look_and_extender_choose_the_same_node(seed):
    async def compare():
        server, pod = cluster(seed)
        extender = await seen_by_the_extender(server, pod)
        server.put(pod)
        looked = await seen_by_a_look(server)
        async with Scheduling(server):
            await until(lambda: server.get("pods", "new")["spec"].get("nodeName"))
        return extender, looked, [server.get("pods", "new")["spec"]["nodeName"]]

    extender, looked, scheduled = run_simulation(compare, seed)
    assert extender == looked == scheduled


async def bind_all(server, count, milli):
    """Let another scheduler run pods of one size, a second apart."""
    for number in range(count):
        server.put(running_pod(f"more-{milli}-{number}", milli, NAMES[number % 6], number % 2))
        await asyncio.sleep(1.0)


def test_mix_of_a_running_scheduler_is_renewed_once_a_minute_and_journaled():
    async def run():
        server, _ = cluster(1)
        async with Scheduling(server) as own:
            mixes = [own.mix]
            opened = server.clock.now()
            await bind_all(server, 50, 100)
            assert own.mix == mixes[0], "a minute has not passed"
            await asyncio.sleep(opened / 1e9 + MINUTE_S + 1 - server.clock.now() / 1e9)
            mixes.append(own.mix)
            client = KubeClient(server.transport())
            fresh = (await take_snapshot(client, FGD, server.clock.now())).policies
            await client.close()
            assert own.scheduler.core.engine.policies == fresh
            await asyncio.sleep(10 * MINUTE_S)
            return mixes, own.changes(), own.journal()

    mixes, changes, journal = run_simulation(run, 1)
    assert mixes[0] != mixes[1]
    assert [change.policies[0].mix for change in changes] == mixes
    assert not any(change.wakes for change in changes)
    assert replay(journal).difference is None


def test_mix_that_is_still_the_same_is_no_fact():
    async def run():
        server, _ = cluster(2)
        async with Scheduling(server) as own:
            for number in range(5):
                server.put(node_json(f"late-{number}", 2))
                await asyncio.sleep(MINUTE_S)
            return own.changes()

    assert len(run_simulation(run, 2)) == 1


def test_new_settings_keep_the_mix_of_the_guests_that_run():
    async def run():
        server, _ = cluster(3)
        async with Scheduling(server) as own:
            before = own.mix
            renamed = msgspec.structs.replace(BUILT_IN["fgd"], name="fgd-2")
            profiles = (SchedulerProfile(OURS, "fgd-2"),)
            await own.scheduler.adopt(msgspec.structs.replace(FGD, policies=(renamed,), profiles=profiles))
            await asyncio.sleep(2 * MINUTE_S)
            return before, own.scheduler.core.engine.policies

    before, policies = run_simulation(run, 3)
    assert [(policy.name, policy.mix) for policy in policies] == [("fgd-2", before)]
