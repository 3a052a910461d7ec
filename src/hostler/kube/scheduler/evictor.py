"""Evictions: the victim's condition says why, then it is deleted with its own grace period, by its uid.

A victim whose bind has not been sent is taken back without a call. Nobody is deleted while our view of the cluster is
old: what looks like a lack of room may long be over. Used by ``loop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import PODS
from hostler.kube.facts.views import PodView
from hostler.kube.facts.world import World
from hostler.kube.scheduler.binder import Binder
from hostler.kube.scheduler.reports import Reports
from hostler.kube.scheduler.times import second_time
from hostler.model import Event, Evict, EvictFailed
from hostler.telemetry.log import QUIET, Log

__all__ = ["Evictor", "EvictorCounts"]

_AGAIN_S = 1.0
_AT_ONCE = 16
_DISRUPTED = "PreemptionByScheduler"
_MOST_REMEMBERED = 4096


class EvictorCounts(msgspec.Struct):
    """What became of evictions so far."""

    evicted: int = 0
    withdrawn: int = 0  # taken back before they were bound
    moot: int = 0  # gone already
    refused: int = 0
    repeated: int = 0  # for a preemptor on a node where others took the room that earlier evictions made


class Evictor:
    """Carries out evictions."""

    def __init__(
        self,
        client: Client,
        world: World,
        clock: Clock,
        tell: Callable[[Event], None],
        binder: Binder,
        reports: Reports,
        *,
        may_evict: Callable[[], bool],
        timeout_s: float,
    ) -> None:
        self.counts = EvictorCounts()
        self.log: Log = QUIET
        self._client = client
        self._world = world
        self._clock = clock
        self._tell = tell
        self._binder = binder
        self._reports = reports
        self._may_evict = may_evict
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self.watch: Callable[[asyncio.Task[None]], None] = lambda task: None  # told when one of our tasks ends
        self._rounds: dict[tuple[str, str], list[int]] = {}  # decisions to evict, by preemptor and node

    @property
    def backlog(self) -> int:
        """Return how many evictions are not finished."""
        return len(self._tasks)

    def submit(self, evict: Evict) -> None:
        """Take an eviction."""
        self._count_round(evict)
        if self._binder.withdraw(evict.uid):
            self.counts.withdrawn += 1
            return
        task = asyncio.get_running_loop().create_task(self._carry_out(evict))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self.watch)

    def _count_round(self, evict: Evict) -> None:
        """Tell when a node is cleared for somebody again: others took the room, and it may go on like that."""
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
            self.log.warn("evicting again for the same", preemptor=evict.preemptor, node=evict.host, times=len(rounds))
            pod = self._world.pods.get(evict.preemptor)
            if pod is not None:
                note = f"node {evict.host} is cleared for this pod again ({len(rounds)} times now): "
                self._reports.warn(pod, "PreemptionRepeated", note + "others took the room that was made before")

    async def abort(self) -> None:
        """Drop everything at once; what was evicted already is not undone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, evict: Evict) -> None:
        await self._binder.settled(evict.uid)
        while True:
            while not self._may_evict():
                await asyncio.sleep(_AGAIN_S)
            pod = self._world.pods.get(evict.uid)
            if pod is None or pod.is_leaving or pod.has_ended:
                self.counts.moot += 1
                return
            async with self._room:
                wait_s = await self._try(pod, evict) if self._may_evict() else _AGAIN_S
            if wait_s is None:
                return
            await asyncio.sleep(wait_s)

    async def _try(self, pod: PodView, evict: Evict) -> float | None:
        """Try once; return how long to wait before the next try, or None when it is settled."""
        preemptor = self._world.pods.get(evict.preemptor)
        try:
            await self._client.patch(
                PODS, pod.namespace, pod.name, self._condition(pod, preemptor, evict), part="status", kind="strategic",
                timeout_s=self._timeout_s,
            )  # fmt: skip
            if not self._may_evict():  # it took long, and somebody else may decide now
                return _AGAIN_S
            await self._client.delete(PODS, pod.namespace, pod.name, uid=pod.uid, timeout_s=self._timeout_s)
        except ApiError as error:
            if error.is_worth_retrying or error.is_conflict:
                # A conflict means that another pod has the name: the watch will say so before we ask again.
                return max(_AGAIN_S, error.retry_after_s or 0.0)
            if error.is_gone:
                self.counts.moot += 1
                return None
            self.counts.refused += 1
            self.log.warn("eviction refused", pod=f"{pod.namespace}/{pod.name}", node=evict.host, why=error.message)
            self._tell(EvictFailed(uid=pod.uid, reason=error.message))
            return None
        except HostlerError:  # no answer, or none that can be read
            return _AGAIN_S
        self.counts.evicted += 1
        self.log.info("evicted", pod=f"{pod.namespace}/{pod.name}", node=evict.host, why=evict.reason)
        self._reports.preempted(pod, preemptor, evict.host, evict.reason)
        return None

    def _condition(self, pod: PodView, preemptor: PodView | None, evict: Evict) -> dict[str, object]:
        """Write why the pod goes, as kube-scheduler does, so that its controllers do not count it as a failure."""
        scheduler = preemptor.scheduler_name if preemptor is not None else ""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": _DISRUPTED,
            "message": f"{scheduler or 'hostler'}: {evict.reason or 'preempting to accommodate another pod'}",
            "lastTransitionTime": second_time(self._clock.now()),
        }
        return {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
