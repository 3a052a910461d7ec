"""The measurements: pods that all wait at the start, pods at a steady rate, and scheduler_perf's workloads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from bench.kube.bind_watcher import BindWatcher
from bench.kube.field import (
    BenchCluster,
    Cost,
    SchedulerProcess,
    connect,
    cost_of,
    create_all,
    open_field,
    same_priority_level,
)
from bench.kube.objects import GANG_SIZE, NAMESPACE, Json, Mix, node, plain_pod, pod_group
from hostler.kube.api.client import KubeClient
from hostler.kube.api.resources import NODES, PODS

__all__ = ["Burst", "Steady", "burst", "mixed", "steady"]

_PATIENCE_S = 600.0
_NAMESPACE: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one scheduler for pods that all waited; seconds from its start."""

    which: str
    pods: int
    bound: int
    first_bind_s: float
    last_bind_s: float
    last_event_s: float
    cost: Cost
    server_cpu_s: float
    calls: int

    @property
    def pods_per_s(self) -> float:
        """Return binds per second from the start of the process to the last bind."""
        return self.bound / self.last_bind_s

    @property
    def told_per_s(self) -> float:
        """Return pods per second from the start of the process to the last event."""
        return self.bound / self.last_event_s


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """From the answer to the POST until the node is seen, in milliseconds."""

    which: str
    p50_ms: float
    p99_ms: float
    missing: int


def burst(which: str, nodes: int, pods: int) -> Burst:
    """Let one scheduler place pods that all wait when it starts, on a fresh cluster."""
    return asyncio.run(_burst(which, nodes, [plain_pod(n, SchedulerProcess(which, None).name) for n in range(pods)]))


def mixed(which: str, mix: Mix) -> Burst:
    """Let one scheduler place a workload."""
    name = SchedulerProcess(which, None).name
    return asyncio.run(_burst(which, mix.nodes, [mix.make(n, name) for n in range(mix.pods)], mix))


async def _burst(which: str, nodes: int, pods: Sequence[Json], mix: Mix | None = None) -> Burst:
    with open_field() as field:
        client = connect(field)
        judge = BindWatcher(client)
        runner = SchedulerProcess(which, field)
        try:
            await create_all(client, [_NAMESPACE, same_priority_level()])
            await create_all(client, [node(n) for n in range(nodes)])
            if mix is not None:
                await _prepare(client, mix, runner.name)
            await create_all(client, pods)
            await judge.start()
            calls, server = await _calls(client), _server_cpu(field)
            await asyncio.to_thread(runner.start)
            churning = asyncio.create_task(_churn(client, runner.name)) if mix is not None and mix.has_churn else None
            names = {str(pod["metadata"]["name"]) for pod in pods}  # type: ignore[index]
            await judge.until_bound(names, _PATIENCE_S)
            await judge.until_told(len(names), 120.0)
            if churning is not None:
                churning.cancel()
            bound = [at for name, at in judge.bound_at.items() if name in names]
            told = judge.scheduled_events or [time.perf_counter()]
            cost = runner.cost()
            return Burst(
                which=which,
                pods=len(pods),
                bound=len(bound),
                first_bind_s=min(bound, default=time.perf_counter()) - runner.started,
                last_bind_s=max(bound, default=time.perf_counter()) - runner.started,
                last_event_s=max(told) - runner.started,
                cost=cost,
                server_cpu_s=_server_cpu(field) - server,
                calls=await _calls(client) - calls,
            )
        finally:
            await judge.stop()
            await asyncio.to_thread(runner.stop)
            await client.close()


async def _prepare(client: KubeClient, mix: Mix, scheduler: str) -> None:
    """Create the objects that exist before a workload begins."""
    running = [
        {
            **plain_pod(n, scheduler, cpu="900m", labels={"app": "low"}, nodeName=f"node-{n % mix.nodes}", priority=0),
            "metadata": {"name": f"low-{n}", "namespace": NAMESPACE, "labels": {"app": "low"}},
        }
        for n in range(mix.running)
    ]
    hopeless = [
        {
            **plain_pod(n, scheduler, cpu="64", priority=1000),
            "metadata": {"name": f"hopeless-{n}", "namespace": NAMESPACE},
        }
        for n in range(mix.hopeless)
    ]
    groups = [pod_group(n, GANG_SIZE) for n in range(mix.pods // GANG_SIZE)] if mix.is_gang else []
    await create_all(client, [*running, *hopeless, *groups])


async def _churn(client: KubeClient, scheduler: str) -> None:
    """Create and delete a node and a pod again and again, until cancelled."""
    number = 0
    while True:
        number += 1
        name = f"churn-{number}"
        pod = plain_pod(0, scheduler, cpu="64")
        pod["metadata"] = {"name": name, "namespace": NAMESPACE}
        extra = node(number, cpu="1")
        extra["metadata"] = {"name": name}
        await create_all(client, [extra, pod])
        await asyncio.sleep(0.05)
        if number > 20:
            old = f"churn-{number - 20}"
            await client.delete(NODES, "", old)
            await client.delete(PODS, NAMESPACE, old)


def steady(which: str, nodes: int, rate: int, seconds: int) -> Steady:
    """Create pods at a steady rate and measure how long each waits for its node."""
    return asyncio.run(_steady(which, nodes, rate, seconds))


async def _steady(which: str, nodes: int, rate: int, seconds: int) -> Steady:
    with open_field() as field:
        client = connect(field)
        judge = BindWatcher(client)
        runner = SchedulerProcess(which, field)
        try:
            await create_all(client, [_NAMESPACE, same_priority_level()])
            await create_all(client, [node(n) for n in range(nodes)])
            await judge.start()
            await asyncio.to_thread(runner.start)
            first = plain_pod(1_000_000, runner.name)
            await create_all(client, [first])
            await judge.until_bound({"pod-1000000"}, 60.0)
            answered: dict[str, float] = {}
            await _at_rate(rate, rate * seconds, lambda n: _post(client, plain_pod(n, runner.name), answered))
            await judge.until_bound(set(answered), 30.0)
            waits = sorted(
                1000 * max(0.0, judge.bound_at[name] - at) for name, at in answered.items() if name in judge.bound_at
            )
            return Steady(
                which=which,
                p50_ms=waits[len(waits) // 2],
                p99_ms=waits[min(len(waits) - 1, int(len(waits) * 0.99))],
                missing=len(answered) - len(waits),
            )
        finally:
            await judge.stop()
            await asyncio.to_thread(runner.stop)
            await client.close()


async def _post(client: KubeClient, pod: Json, answered: dict[str, float]) -> None:
    await create_all_one(client, pod)
    answered[str(pod["metadata"]["name"])] = time.perf_counter()  # type: ignore[index]


async def create_all_one(client: KubeClient, pod: Json) -> None:
    await client.post(f"/api/v1/namespaces/{NAMESPACE}/pods", pod, timeout_s=30)


async def _at_rate(rate: int, count: int, make: Callable[[int], object]) -> None:
    """Start one call every 1/rate seconds, whether or not earlier ones have ended."""
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            group.create_task(make(number))


async def _calls(client: KubeClient) -> int:
    """Count the requests that the API server answered so far."""
    text = (await client.read("/metrics")).decode()
    return int(
        sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("apiserver_request_total{"))
    )


def _server_cpu(field: BenchCluster) -> float:
    return cost_of(field.cluster.processes["apiserver"]).cpu_s
