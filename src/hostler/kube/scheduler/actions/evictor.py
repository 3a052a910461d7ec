"""Evictions: write the reason into the victim's condition, then delete it by uid with its own grace period.

A victim whose bind has not been sent is withdrawn without a call. No pod is deleted while our view of the cluster is
old: the room may be free by now. Used by ``loop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import PODS
from hostler.kube.facts.views import PodView
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.scheduler.actions.binder import Binder
from hostler.kube.scheduler.actions.reports import Reports
from hostler.kube.scheduler.times import second_time
from hostler.model import Event, Evict, EvictFailed
from hostler.runtime.clock import Clock
from hostler.telemetry.log import QUIET, Log

__all__ = ["Evictor", "EvictorCounts"]

_AGAIN_S = 1.0
_AT_ONCE = 16
_DISRUPTED = "PreemptionByScheduler"
_MOST_REMEMBERED = 4096


class EvictorCounts(msgspec.Struct):
    """Numbers of evictions by outcome."""

    evicted: int = 0
    withdrawn: int = 0  # withdrawn before they were bound
    moot: int = 0  # gone already
    refused: int = 0
    repeated: int = 0  # for a preemptor on a node where other pods took the room of earlier evictions


class Evictor:
    """Carries out evictions."""

    def __init__(
        self,
        client: KubeClient,
        cluster: WatchedCluster,
        clock: Clock,
        tell: Callable[[Event], None],
        binder: Binder,
        reports: Reports,
        *,
        may_evict: Callable[[], bool],
        timeout_s: float,
        on_task_end: Callable[[asyncio.Task[None]], None] = lambda task: None,
        log: Log = QUIET,
    ) -> None:
        self.counts = EvictorCounts()
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._tell = tell
        self._binder = binder
        self._reports = reports
        self._may_evict = may_evict
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_task_end = on_task_end
        self._log = log
        self._rounds: dict[tuple[str, str], list[int]] = {}  # times of eviction decisions, by preemptor and node

    @property
    def backlog(self) -> int:
        """Return the number of unfinished evictions."""
        return len(self._tasks)

    def submit(self, evict: Evict) -> None:
        """Accept an eviction."""
        self._count_round(evict)
        if self._binder.withdraw(evict.uid):
            self.counts.withdrawn += 1
            return
        task = asyncio.get_running_loop().create_task(self._carry_out(evict))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._on_task_end)

    def _count_round(self, evict: Evict) -> None:
        """Report repeated evictions on a node for the same pod: other pods took the room and may do so again."""
        if not evict.preemptor:
            return
        key = (evict.preemptor, evict.host)
        rounds = self._rounds.pop(key, [])
        self._rounds[key] = rounds
        while len(self._rounds) > _MOST_REMEMBERED:
            del self._rounds[next(iter(self._rounds))]
        is_new = evict.seq not in rounds
        if is_new:
            rounds.append(evict.seq)
        if len(rounds) < 2:
            return
        self.counts.repeated += 1
        if is_new:
            self._log.warn(
                "repeated evictions for the same pod", preemptor=evict.preemptor, node=evict.host, times=len(rounds)
            )
            pod = self._cluster.pods.get(evict.preemptor)
            if pod is not None:
                note = f"node {evict.host} has been cleared for this pod repeatedly ({len(rounds)} times now): "
                self._reports.warn(pod, "PreemptionRepeated", note + "other pods took the freed room")

    async def abort(self) -> None:
        """Drop everything at once; evictions already made are not undone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, evict: Evict) -> None:
        await self._binder.wait_for_outcome(evict.uid)
        while True:
            while not self._may_evict():
                await asyncio.sleep(_AGAIN_S)
            pod = self._cluster.pods.get(evict.uid)
            if pod is None or pod.is_leaving or pod.has_ended:
                self.counts.moot += 1
                return
            async with self._room:
                wait_s = await self._try(pod, evict) if self._may_evict() else _AGAIN_S
            if wait_s is None:
                return
            await asyncio.sleep(wait_s)

    async def _try(self, pod: PodView, evict: Evict) -> float | None:
        """Try once; return how long to wait before the next try, or None when the eviction is finished."""
        preemptor = self._cluster.pods.get(evict.preemptor)
        try:
            await self._client.patch(
                PODS, pod.namespace, pod.name, self._condition(pod, preemptor, evict), part="status", kind="strategic",
                timeout_s=self._timeout_s,
            )  # fmt: skip
            if not self._may_evict():  # it took long, and another scheduler may decide now
                return _AGAIN_S
            await self._client.delete(PODS, pod.namespace, pod.name, uid=pod.uid, timeout_s=self._timeout_s)
        except ApiError as error:
            if error.is_worth_retrying or error.is_conflict:
                # A conflict means that another pod has the name: the watch shows it before the next try.
                return max(_AGAIN_S, error.retry_after_s or 0.0)
            if error.is_gone:
                self.counts.moot += 1
                return None
            self.counts.refused += 1
            self._log.warn("eviction refused", pod=f"{pod.namespace}/{pod.name}", node=evict.host, why=error.message)
            self._tell(EvictFailed(uid=pod.uid, reason=error.message))
            return None
        except HostlerError:  # no response, or an unreadable one
            return _AGAIN_S
        self.counts.evicted += 1
        self._log.info("evicted", pod=f"{pod.namespace}/{pod.name}", node=evict.host, why=evict.reason)
        self._reports.report_preempted(pod, preemptor, evict.host, evict.reason)
        return None

    def _condition(self, pod: PodView, preemptor: PodView | None, evict: Evict) -> dict[str, object]:
        """Write the reason as kube-scheduler does, so that controllers do not count the eviction as a failure."""
        scheduler = preemptor.scheduler_name if preemptor is not None else ""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": _DISRUPTED,
            "message": f"{scheduler or 'hostler'}: {evict.reason or 'preempting to accommodate another pod'}",
            "lastTransitionTime": second_time(self._clock.now()),
        }
        return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
