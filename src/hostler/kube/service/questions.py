"""Queries about a scheduler's cluster, answered on a copy of its engine while it keeps deciding.

The twin is made on the engine's thread, between two turns. Everything that takes long runs in another thread, one query
at a time. The engine's state that the API does not show (assumed pods, nominations) is included. Used by ``pages``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from hostler.engine import Engine
from hostler.errors import UnknownNameError
from hostler.kube.api.resources import PODS
from hostler.kube.facts.views import PodView
from hostler.kube.live.answers import candidates_as_data, not_offered, notes_on, queue_row, waiting_message
from hostler.kube.live.plan import make_plan
from hostler.kube.live.planned_objects import read_planned
from hostler.kube.live.snapshot import as_ours, open_cluster
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.scheduler.times import second_time
from hostler.kube.service.numbers import QueueNumbers, count, pending
from hostler.manifests import Pod
from hostler.model import Explanation, GuestArrived
from hostler.model.plain_data import decision_as_data, explanation_as_data
from hostler.runtime.clock import NANOSECONDS, Clock
from hostler.runtime.engine_thread import Executor
from hostler.runtime.listener import RequestRejectedError

__all__ = ["Questions"]

_PATIENCE_S = 20.0
_TWIN_KEPT_NS = NANOSECONDS
T = TypeVar("T")


class Questions:
    """Answers queries about one scheduler's cluster."""

    def __init__(self, scheduler: Scheduler, executor: Executor, clock: Clock) -> None:
        self._scheduler = scheduler
        self._executor = executor
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._twin: tuple[int, Engine] | None = None
        self._numbers = QueueNumbers()

    # -- pods ------------------------------------------------------------------------------------------------------

    def pod(self, namespace: str, name: str) -> PodView:
        """Find a known pod by name."""
        for pod in self._scheduler.cluster.pods.values():
            if (pod.namespace, pod.name) == (namespace, name):
                return pod
        raise UnknownNameError(f"there is no pod {name!r} in namespace {namespace}")

    def pod_by_uid(self, uid: str) -> PodView | None:
        """Find a pod by its uid."""
        return self._scheduler.cluster.pods.get(uid)

    async def explain(self, pod: PodView) -> dict[str, object]:
        """Explain a pod in its present state."""
        explanation, notes, message = await self._explanation(pod)
        return {**explanation_as_data(explanation, pod.namespace, message), "notes": notes}

    async def candidates(self, pod: PodView) -> dict[str, object]:
        """Return which nodes would take a pod."""
        explanation, notes, _ = await self._explanation(pod)
        return {**candidates_as_data(explanation, pod.namespace), "notes": notes}

    async def decision(self, pod: PodView) -> dict[str, object]:
        """Return the last decision about a pod."""
        engine = self._scheduler.core.engine
        decision = await self._in_engine(lambda: engine.decision(pod.uid))
        return decision_as_data(decision, pod.namespace)

    # -- the whole -------------------------------------------------------------------------------------------------

    async def queue(self, namespace: str, limit: int) -> dict[str, object]:
        """List the waiting pods of our profiles in the order in which they are tried; gated ones last."""
        pods, now = self._scheduler.cluster.pods, self._clock.now()
        found = await self._aside(pending)
        rows: list[dict[str, object]] = []
        for one in found:
            pod = pods.get(one.uid)
            if pod is not None and not pod.node and namespace in ("", pod.namespace):
                due = second_time(one.next_try) if one.next_try > now else None
                rows.append(queue_row(pod, now, one.state, one.reason, next_try=due, attempts=one.attempts))
        known = {one.uid for one in found}
        for pod in pods.values():
            is_shown = pod.is_ours and not pod.node and not pod.has_ended and namespace in ("", pod.namespace)
            if is_shown and pod.uid not in known:
                why = "it has scheduling gates" if pod.is_gated else pod.problem
                rows.append(queue_row(pod, now, "gated" if pod.is_gated else "error", why, attempts=0))
        return {"pods": rows[:limit], "total": len(rows), "from": "scheduler"}

    async def plan(self, documents: Sequence[Any], namespace: str, *, may_evict: bool) -> dict[str, object]:
        """Return where pods that do not exist yet would go."""
        scheduler, now = self._scheduler, self._clock.now()
        planned = read_planned(documents, scheduler.settings, namespace)
        stores = self._stores()

        def work(twin: Engine) -> dict[str, object]:
            cluster, _ = open_cluster(stores, scheduler.settings, now)
            plan = make_plan(cluster, twin.fork(), planned, now, may_evict=may_evict)
            return {**msgspec.to_builtins(plan), "complete": plan.is_complete}

        return await self._aside(work)

    async def numbers(self) -> QueueNumbers:
        """Count the queue; if the engine is busy for long, return the last count."""
        engine = self._scheduler.core.engine
        with suppress(TimeoutError):
            self._numbers = await self._in_engine(lambda: count(engine), patience_s=5.0)
        return self._numbers

    async def disagreements(self) -> list[str]:
        """Return where the engine and the watched cluster differ; while facts wait, that is no error."""
        engine, views = self._scheduler.core.engine, dict(self._scheduler.cluster.pods)

        def compare() -> list[str]:
            found = []
            for uid, record in engine.view.records.items():
                pod = views.get(uid)
                if pod is None:
                    found.append(f"the engine knows {uid}, which is no pod")
                elif pod.node and record.host != pod.node:
                    found.append(
                        f"{pod.namespace}/{pod.name} is on {pod.node}, but in the engine on {record.host or 'none'}"
                    )
            guests = engine.view.records
            for uid, pod in views.items():
                if pod.node and not pod.has_ended and uid not in guests:
                    found.append(f"{pod.namespace}/{pod.name} is on {pod.node}, unknown to the engine")
            return found

        return await self._in_engine(compare)

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _explanation(self, pod: PodView) -> tuple[Explanation, list[str], str]:
        scheduler, now = self._scheduler, self._clock.now()
        stores = self._stores() if not pod.is_ours or pod.is_gated else None

        whole = self._whole(pod)
        notes = notes_on(whole, scheduler.settings) if whole is not None else []

        def work(twin: Engine) -> tuple[Explanation, list[str], str]:
            if pod.uid not in twin.view.records:
                if stores is None:
                    raise RequestRejectedError(409, f"the pod cannot be scheduled: {pod.problem or 'it has ended'}")
                cluster, _ = open_cluster(stores, scheduler.settings, now, change=as_ours(scheduler.settings, pod.uid))
                guest = cluster.guest(pod.uid)
                if guest is None:
                    raise RequestRejectedError(409, f"the pod cannot be scheduled: {cluster.pods[pod.uid].problem}")
                twin = twin.fork()
                twin.apply(GuestArrived(guest=guest, at=now))
            explanation, decision = twin.explain(pod.uid), twin.decision(pod.uid)
            guest = twin.view.guest(pod.uid)
            if guest.gang and not decision.host and (decision.seq or decision.note):
                # A member alone might find room; its decision was made as part of its gang.
                explanation = msgspec.structs.replace(explanation, decision=decision)
            lacking = not_offered(twin, guest.spec)
            return explanation, [*notes, *lacking], waiting_message(twin, pod.uid, explanation)

        return await self._aside(work)

    async def _aside(self, work: Callable[[Engine], T]) -> T:
        """Run long work on a twin in a thread of its own; it may read the twin but not change it.

        The caller may give up, but a thread cannot be stopped: the next query waits until it is done.
        """
        async with asyncio.timeout(_PATIENCE_S):
            await self._one_at_a_time.acquire()
            try:
                now = self._clock.now()
                if self._twin is None or now - self._twin[0] > _TWIN_KEPT_NS:
                    self._twin = (now, await self._executor.run(self._scheduler.core.engine.fork))
                twin = self._twin[1]
                doing = asyncio.get_running_loop().run_in_executor(None, lambda: work(twin))
            except BaseException:
                self._one_at_a_time.release()
                raise
            doing.add_done_callback(self._done)
            return await asyncio.shield(doing)

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._one_at_a_time.release()
        if not future.cancelled():
            future.exception()  # marks the error as seen: a caller that has left does not need it

    async def _in_engine(self, work: Callable[[], T], patience_s: float = _PATIENCE_S) -> T:
        async with asyncio.timeout(patience_s):
            return await self._executor.run(work)

    def _whole(self, pod: PodView) -> Pod | None:
        """Return the complete pod as it is known now."""
        found = self._scheduler.reflectors[PODS.kind + PODS.group].store.get((pod.namespace, pod.name))
        return found if isinstance(found, Pod) and found.metadata.uid == pod.uid else None

    def _stores(self) -> dict[tuple[str, str], list[Any]]:
        """Return the objects as they are known now."""
        reflectors = self._scheduler.reflectors.values()
        return {(one.resource.group, one.resource.plural): list(one.store.values()) for one in reflectors}
