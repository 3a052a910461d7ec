"""A cluster for one scenario: an API server in memory, a kubelet, schedulers, and scripted faults.

``play(story)`` runs a coroutine function with a cluster in virtual time. At its end it asserts what must always hold:
the invariants of the server's history, and that each leader's view is what the API shows.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from hostler.engine import Registry, find_policy
from hostler.kube.api.client import KubeClient
from hostler.kube.memory import ApiServer, DisruptionController, Kubelet
from hostler.kube.memory.calls import LogEntry
from hostler.kube.memory.controllers import has_ended
from hostler.kube.memory.virtual_time import SimClock, run_simulation
from hostler.kube.scheduler.main import Make, Terms
from hostler.kube.scheduler.meters import SchedulerMeters
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.settings import ApiLimits, Election, ExtenderSettings, GangRules, SchedulerProfile, SchedulerSettings
from hostler.model import PluginUse, PreemptionRules
from hostler.runtime.engine_thread import Executor, InlineExecutor
from hostler.telemetry.log import Log
from tests.kube.faults.scripted_transport import ScriptedTransport
from tests.kube.memory import invariants
from tests.kube.memory.fault_rates import request_kind
from tests.kube.memory.faults import Outage

OURS = "hostler-scheduler"
SECOND = 1_000_000_000
_QUEUED = {"active", "backoff", "waiting", "gated"}

Json = dict[str, Any]
Story = Callable[["SimulatedCluster"], Awaitable[None]]
AnyActor = TypeVar("AnyActor", bound="SchedulerReplica")


class SchedulerReplica:
    """One scheduler process: its transport, and how to stop it."""

    task: asyncio.Task[Any]

    def __init__(self, scheduler: Scheduler, script: ScriptedTransport) -> None:
        self.scheduler = scheduler
        self.script = script
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(scheduler.run(self.stop))

    @property
    def leads(self) -> bool:
        return self.scheduler.is_synced and self.scheduler.mandate.is_held and not self.task.done()


class LongLivedReplica(SchedulerReplica):
    """A process that waits for the lease again whenever it is lost."""

    def __init__(self, terms: Terms, script: ScriptedTransport) -> None:
        self.terms = terms
        self.script = script
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(terms.run(self.stop))

    @property
    def scheduler(self) -> Scheduler:  # type: ignore[override]
        return self.terms.current


class SupervisedReplica:
    """A scheduler that is restarted, with growing delay, whenever it ends."""

    def __init__(self, cluster: "SimulatedCluster", name: str) -> None:
        self.current = cluster.start(name)
        self.lives = 1
        self.task = asyncio.ensure_future(self._live(cluster, name))

    @property
    def leads(self) -> bool:
        return self.current.leads

    async def _live(self, cluster: "SimulatedCluster", name: str) -> None:
        while True:
            await asyncio.wait({self.current.task})
            await cluster.sleep(min(300.0, 10.0 * 2 ** (self.lives - 1)))
            self.lives += 1
            self.current = cluster.start(name)


class SimulatedCluster:
    """Everything that a scenario needs. Create it inside the loop."""

    def __init__(
        self,
        *,
        rules: PreemptionRules | None = None,
        gangs: GangRules | None = None,
        limits: ApiLimits | None = None,
        filters: tuple[str, ...] = (),
        plugins: Mapping[str, Any] | None = None,
        extenders: tuple[ExtenderSettings, ...] = (),
        calls: Any = None,
        executor: Executor | None = None,
        seed_annotations: bool = False,
        election: bool = True,
        kubelet: bool = True,
        collect_s: float | None = None,
        latency_s: float = 0.001,
        without: tuple[str, ...] = (),
    ) -> None:
        self.clock = SimClock()
        self.server = ApiServer(self.clock, latency_s=latency_s, without=without)
        self.outage = Outage()
        self.actors: list[SchedulerReplica] = []
        self.kubelet: Any = Kubelet(self.server, end_s=600.0, collect_s=collect_s) if kubelet else None
        DisruptionController(self.server)
        policy = msgspec.structs.replace(find_policy("kubernetes"), preemption=rules or PreemptionRules())
        policy = msgspec.structs.replace(policy, filters=policy.filters + tuple(PluginUse(name) for name in filters))
        self._registry = Registry(plugins)
        self._settings = SchedulerSettings(
            profiles=(SchedulerProfile(OURS, policy.name),),
            policies=(policy,),
            election=Election(is_on=election),
            limits=limits or ApiLimits(max_in_flight=4),
            gangs=gangs or GangRules(),
            extenders=extenders,
            seed_annotations=seed_annotations,
        )
        self._calls = calls
        self.log_lines: list[str] = []  # of all schedulers
        self._executor: Executor = executor or InlineExecutor()

    # -- who acts --------------------------------------------------------------------------------------------------

    def start(
        self, name: str = "one", *, script: Callable[[ScriptedTransport], Any] = lambda script: None
    ) -> SchedulerReplica:
        """Start a scheduler; ``script`` gets its transport before anything is sent."""
        make, transport = self._maker(script)
        return self._add(SchedulerReplica(make(self._settings, f"{name}-{len(self.actors)}"), transport))

    def last(
        self, name: str = "one", *, script: Callable[[ScriptedTransport], Any] = lambda script: None
    ) -> "LongLivedReplica":
        """Start a process that survives the loss of its lease."""
        make, transport = self._maker(script)
        terms = Terms(make, self._settings, self._executor, identity=f"{name}-{len(self.actors)}")
        return self._add(LongLivedReplica(terms, transport))

    def _maker(self, script: Callable[[ScriptedTransport], Any]) -> tuple[Make, ScriptedTransport]:
        transport = ScriptedTransport(self.server, outage=self.outage)
        script(transport)
        client, meters, number = KubeClient(transport), SchedulerMeters(), len(self.actors)

        def make(settings: SchedulerSettings, identity: str) -> Scheduler:
            return Scheduler(
                client,
                settings,
                clock=self.clock,
                executor=self._executor,
                identity=identity,
                random=random.Random(number),
                registry=self._registry,
                calls=self._calls,
                meters=meters,
                log=Log(self.log_lines.append),
            )

        return make, transport

    def _add(self, actor: AnyActor) -> AnyActor:
        self.actors.append(actor)
        return actor

    async def lead(self, name: str = "one", **more: Any) -> SchedulerReplica:
        """Start a scheduler and wait until it leads and has listed everything."""
        actor = self.start(name, **more)
        await self.until(lambda: actor.leads)
        return actor

    def supervise(self, name: str = "one") -> "SupervisedReplica":
        """Start a scheduler that is restarted whenever it ends, as by a Deployment."""
        return SupervisedReplica(self, name)

    async def crash(self, actor: SchedulerReplica) -> None:
        """Kill a process: none of its further requests reaches the server."""
        actor.script.kill()
        await self.end(actor)

    async def end(self, actor: SchedulerReplica) -> None:
        actor.task.cancel()
        await asyncio.gather(actor.task, return_exceptions=True)
        await actor.script.close()

    # -- what there is ---------------------------------------------------------------------------------------------

    def node(self, name: str, cpu: int = 4, **spec: Any) -> Json:
        amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name}
        return self.server.put(
            {
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "spec": spec,
                "status": {"allocatable": amounts, "capacity": amounts},
            }
        )

    def pod(
        self,
        name: str,
        cpu: float = 1,
        *,
        priority: int = 0,
        group: str = "",
        on: str = "",
        grace_s: int = 0,
        scheduler: str = OURS,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Json:
        """Put a pod; ``on`` a node, if another scheduler placed it there."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": f"{int(cpu * 1000)}m"}}}
        spec = {
            "schedulerName": scheduler,
            "priority": priority,
            "containers": [container],
            "terminationGracePeriodSeconds": grace_s,
            **spec,
        }
        if on:
            spec["nodeName"] = on
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        metadata = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
        return self.server.put({"kind": "Pod", "metadata": metadata, "spec": spec})

    def group(self, name: str, least: int, priority: int = 0) -> Json:
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}, "priority": priority}
        return self.server.put({"kind": "PodGroup", "metadata": {"name": name}, "spec": spec})

    def change_node(self, name: str, *, cpu: int | None = None, **spec: Any) -> None:
        def how(item: Json) -> Json:
            status = item["status"]
            if cpu is not None:
                status = {**status, "allocatable": {**status["allocatable"], "cpu": str(cpu)}}
            return {**item, "spec": {**item["spec"], **spec}, "status": status}

        self.server.change("nodes", name, how, "")

    def bind_as_other(self, name: str, node: str) -> None:
        """Let another scheduler bind a pod."""
        self.server.change("pods", name, lambda item: {**item, "spec": {**item["spec"], "nodeName": node}})

    # -- looking ---------------------------------------------------------------------------------------------------

    def where(self, name: str) -> str:
        """Return the node of a pod; empty if it waits or is gone."""
        pod = self.server.get("pods", name)
        return pod["spec"].get("nodeName", "") if pod is not None else ""

    def runs(self, name: str) -> bool:
        """Return whether the kubelet has started a pod."""
        pod = self.server.get("pods", name)
        return pod is not None and pod["status"]["phase"] == "Running"

    def placed(self, *names: str) -> int:
        return sum(bool(self.where(name)) for name in names)

    def uid(self, name: str) -> str:
        pod = self.server.get("pods", name)
        assert pod is not None, f"there is no pod {name}"
        return pod["metadata"]["uid"]

    def why(self, name: str) -> str:
        """Return the message of the condition PodScheduled of a waiting pod."""
        pod = self.server.get("pods", name) or {"status": {}}
        known = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
        return known[0].get("message", "") if known and known[0]["status"] == "False" else ""

    def nominated(self, name: str) -> str:
        pod = self.server.get("pods", name) or {"status": {}}
        return pod["status"].get("nominatedNodeName", "")

    def events(self, name: str) -> list[str]:
        """Return the reasons of the events about a pod, in order."""
        return [event["reason"] for event in self.server.objects("events") if event["regarding"]["name"] == name]

    def requests(self, kind: str = "", about: str = "", since: int = 0) -> list[Any]:
        """Return the requests of our schedulers: of a kind, about an object, since a time."""
        return [
            entry
            for entry in self.server.log
            if entry.user == "hostler"
            and entry.sent >= since
            and (not kind or _kind_of(entry) == kind)
            and (not about or about in entry.path.replace("?", "/").split("/"))
        ]

    def targets(self, name: str) -> list[str]:
        """Return the nodes of all binds that were sent for a pod."""
        return [entry.decoded()["target"]["name"] for entry in self.requests("binding", name)]

    def evicted(self, name: str) -> int:
        """Return how often we deleted a pod of this name."""
        return sum(entry.status == 200 for entry in self.requests("delete", name))

    # -- waiting ---------------------------------------------------------------------------------------------------

    def now(self) -> int:
        return self.clock.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], object], within_s: float = 120.0) -> None:
        """Wait for something that must happen; in virtual time, so the limit does not measure speed."""
        end = asyncio.get_running_loop().time() + within_s
        while not condition():
            assert asyncio.get_running_loop().time() < end, "it never happened"
            await asyncio.sleep(0.05)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until all invariants hold, at most as long as a watch may be silent; history never heals."""
        for _ in range(26):
            await self.sleep(5.0)
            wrongs = self.wrongs()
            if not wrongs:
                return
        raise AssertionError("; ".join(wrongs)[:2000])

    def wrongs(self) -> list[str]:
        """Return the violated invariants."""
        found = invariants.violations(self.server)
        for actor in self.actors:
            if actor.leads:
                found += self._wrong_views(actor.scheduler)
        return found

    def _wrong_views(self, leader: Scheduler) -> list[str]:
        """I4 and I5: the leader's view is the API's, and every waiting pod of ours has one queue state."""
        pods = [pod for pod in self.server.objects("pods") if not has_ended(pod)]
        engine, found = leader.core.engine, []
        known = {uid: engine.decision(uid) for uid in engine.guests()}
        shown = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in pods}
        believed = {uid: view.node for uid, view in leader.cluster.pods.items() if not view.has_ended}
        if shown != believed:
            found.append(f"the world differs from the API: {sorted(set(shown.items()) ^ set(believed.items()))}")
        running = {uid: node for uid, node in shown.items() if node}
        booked = {uid: decision.host for uid, decision in known.items() if decision.host}
        if running != booked:
            found.append(f"the engine's books differ: {sorted(set(running.items()) ^ set(booked.items()))}")
        for pod in pods:
            spec, uid, name = pod["spec"], pod["metadata"]["uid"], pod["metadata"]["name"]
            is_ours = spec["schedulerName"] == OURS and not spec.get("nodeName") and not spec.get("schedulingGates")
            view = leader.cluster.pods.get(uid)
            if not is_ours or pod["metadata"].get("deletionTimestamp") or (view is not None and view.problem):
                continue
            if uid not in known or known[uid].state not in _QUEUED:
                found.append(f"{name} waits and is {known[uid].state if uid in known else 'unknown'}")
        if leader.binder.backlog:
            found.append(f"{leader.binder.backlog} binds are not finished")
        return found


def play(story: Story, *, seed: int = 1, steps: int = 2_000_000, is_clean: bool = True, **options: Any) -> None:
    """Play a story. Without ``is_clean`` its end is not checked, because the test overcommits on purpose."""

    async def run() -> None:
        cluster = SimulatedCluster(**options)
        try:
            await story(cluster)
            if is_clean:
                await cluster.settle()
        finally:
            for actor in cluster.actors:
                await cluster.end(actor)

    run_simulation(run, seed, limit_steps=steps)


def _kind_of(entry: LogEntry) -> str:
    from hostler.runtime.transport import Request

    is_stream = "watch=1" in entry.path
    return request_kind(Request(method=entry.method, path=entry.path, is_stream=is_stream))
