"""Create the objects of a load at its rates, with a bounded number of calls in flight, and delete them again.

A call that the server throttles (429, 503) waits and keeps its slot meanwhile, so the whole load slows down. Names are
fixed, so a call whose response was lost is simply repeated. If the server rejects a call permanently, the load ends:
the next object would fail too. Used by ``hostler kube load``.

``LoadPace`` keeps the rate: the n-th object is due n intervals after the first, however long each of them took.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.failures import ApiError, is_worth_retrying
from hostler.kube.api.resources import CRD_POD_GROUPS, NODES, POD_GROUPS, PODS, Object, Resource
from hostler.kube.load.objects import LABEL, churn_pod, gang_pod, node, pod, pod_group
from hostler.kube.load.settings import LoadSettings
from hostler.runtime.backoff import BackoffRules, retry_call

__all__ = ["MOST_IN_FLIGHT", "LoadCounts", "LoadRunner", "clean"]

MOST_IN_FLIGHT = 32
_PATIENCE = BackoffRules(first_s=0.2, limit_s=10.0)

_ORDER: tuple[Resource[Any], ...] = (PODS, POD_GROUPS, CRD_POD_GROUPS, NODES)


class LoadCounts(msgspec.Struct):
    """Numbers of objects created and deleted so far."""

    nodes: int = 0
    pods: int = 0
    gangs: int = 0
    churned: int = 0
    ended: int = 0  # pods of the churn that were deleted again
    found: int = 0  # objects that existed already
    waits: int = 0  # calls that were throttled, or whose response was lost


class LoadRunner:
    """One run of a load on one cluster."""

    def __init__(
        self, client: KubeClient, load: LoadSettings, random: random.Random, *, most_in_flight: int = MOST_IN_FLIGHT
    ) -> None:
        self.tally = LoadCounts()
        self._client = client
        self._load = load
        self._random = random
        self._places = asyncio.Semaphore(most_in_flight)
        self._stop = asyncio.Event()
        self._failure: HostlerError | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._alive: dict[str, asyncio.TimerHandle] = {}  # pods of the churn by name

    def stop(self) -> None:
        """Create no more objects; calls in flight are finished."""
        self._stop.set()

    async def run(self, for_s: float | None = None) -> None:
        """Create everything. Churn lasts for ``for_s`` or until stopped, and no part takes longer than that."""
        timer = asyncio.get_running_loop().call_later(for_s, self.stop) if for_s is not None else None
        try:
            await self._nodes()
            await asyncio.gather(self._pods(), self._gangs(), self._churn())
            await self._finish()
        finally:
            if timer is not None:
                timer.cancel()
            await self._abandon()
        if self._failure is not None:
            raise self._failure

    # -- parts -----------------------------------------------------------------------------------------------------

    async def _nodes(self) -> None:
        for number in range(self._load.nodes.count):
            if not await self._start(self._make(NODES, node(self._load, number), "nodes")):
                break
        await self._settle()

    async def _pods(self) -> None:
        pace = LoadPace(self._load.pods.rate, self._stop)
        for number in range(self._load.pods.count):
            await pace.next()
            if not await self._start(self._make(PODS, pod(self._load, number), "pods")):
                return

    async def _gangs(self) -> None:
        gangs = self._load.gangs
        if not gangs.count:
            return
        is_built_in = await self._is_built_in()
        pace = LoadPace(gangs.rate, self._stop)
        for number in range(gangs.count):
            await pace.next()
            group = pod_group(self._load, number, is_built_in=is_built_in)
            if not await self._start(self._make(POD_GROUPS if is_built_in else CRD_POD_GROUPS, group, "gangs")):
                return
            for member in range(
                gangs.size
            ):  # all members of a started group are created: half a gang would wait forever
                one = gang_pod(self._load, number, member, is_built_in=is_built_in)
                await self._start(self._make(PODS, one, "pods"), is_last_word=True)

    async def _churn(self) -> None:
        churn = self._load.churn
        if not churn.rate:
            return
        pace = LoadPace(churn.rate, self._stop)
        number = 0
        while not self._stop.is_set():
            await pace.next()
            if not await self._start(self._come(churn_pod(self._load, number))):
                return
            number += 1

    async def _come(self, content: dict[str, Any]) -> None:
        """Create a pod of the churn, and delete it when its lifetime is over."""
        await self._make(PODS, content, "churned")
        name = content["metadata"]["name"]
        loop = asyncio.get_running_loop()
        self._alive[name] = loop.call_later(self._load.churn.lifetime_s, lambda: self._spawn(self._go(name)))

    async def _go(self, name: str) -> None:
        self._alive.pop(name).cancel()
        async with self._places:
            try:
                await self._call(lambda: self._client.delete(PODS, self._load.namespace, name, grace_s=0))
            except ApiError as error:
                if not error.is_gone:  # already gone: evicted, perhaps
                    raise
        self.tally.ended += 1

    # -- calls -----------------------------------------------------------------------------------------------------

    async def _start(self, work: Awaitable[None], *, is_last_word: bool = False) -> bool:
        """Start work when a slot is free; return whether to continue."""
        await self._places.acquire()
        if (self._stop.is_set() and not is_last_word) or self._failure is not None:
            self._places.release()
            if asyncio.iscoroutine(work):
                work.close()
            return False

        async def working() -> None:
            try:
                await work
            finally:
                self._places.release()

        self._spawn(working())
        return True

    def _spawn(self, work: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except HostlerError as error:
                self._failure = self._failure or _with_hint(error)
                self._stop.set()

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, resource: Resource[Any], content: dict[str, Any], count: str) -> None:
        try:
            await self._call(lambda: self._client.create(resource, self._load.namespace, content))
        except ApiError as error:
            if not error.is_conflict:
                raise
            self.tally.found += 1
        setattr(self.tally, count, getattr(self.tally, count) + 1)

    async def _call(self, call: Callable[[], Awaitable[object]]) -> None:
        """Repeat a call until it is answered."""

        def is_worth(error: Exception) -> bool:
            is_later = is_worth_retrying(error) and self._failure is None
            self.tally.waits += is_later
            return is_later

        await retry_call(call, _PATIENCE, self._random, is_worth=is_worth)

    async def _is_built_in(self) -> bool:
        """Return which PodGroup API to use."""
        if self._load.gangs.api != "auto":
            return self._load.gangs.api == "built-in"
        try:
            await self._client.list(POD_GROUPS, self._load.namespace)
        except ApiError as error:
            if error.is_gone:
                return False
            raise
        return True

    # -- ends ------------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _finish(self) -> None:
        """Wait for calls in flight, and delete the remaining churn."""
        await self._settle()
        for name in list(self._alive):
            self._spawn(self._go(name))
        await self._settle()

    async def _abandon(self) -> None:
        """Cancel everything that still runs, whatever happened."""
        for handle in self._alive.values():
            handle.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _with_hint(error: HostlerError) -> HostlerError:
    """Add a hint to the errors that a load meets most often."""
    if not isinstance(error, ApiError) or error.hint:
        return error
    hints = {
        403: "use an account that may create and delete nodes, pods and podgroups",
        404: "create the namespace, and see that the server has the PodGroup that the file asks for",
        422: "check the template in the file",
    }
    hint = hints.get(error.status, "")
    return ApiError(error.status, error.reason, error.text, retry_after_s=error.retry_after_s, hint=hint)


class LoadPace:
    """Waits for the next turn at a rate per second; 0 means no limit. Once stopped, it no longer waits."""

    def __init__(self, rate: float, stop: asyncio.Event) -> None:
        self._rate = rate
        self._stop = stop
        self._began: float | None = None
        self._count = 0

    async def next(self) -> None:
        """Wait until the next object is due."""
        if not self._rate:
            return
        now = asyncio.get_running_loop().time()
        if self._began is None:
            self._began = now
        wait_s = self._began + self._count / self._rate - now
        self._count += 1
        if wait_s > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), wait_s)


async def clean(client: KubeClient, name: str, random: random.Random) -> dict[str, int]:
    """Delete all objects with the label of a load in all namespaces; return the number of each kind."""
    counts: dict[str, int] = {}
    for resource in _ORDER:
        deleted = await _clean_kind(client, resource, name, random)
        counts[resource.plural] = counts.get(resource.plural, 0) + deleted
    return counts


async def _clean_kind(client: KubeClient, resource: Resource[Any], name: str, random: random.Random) -> int:
    try:
        listing = await retry_call(
            lambda: client.list(resource, labels=f"{LABEL}={name}"), _PATIENCE, random, is_worth=is_worth_retrying
        )
    except ApiError as error:
        if error.is_gone:  # this server has no such API
            return 0
        raise
    places = asyncio.Semaphore(MOST_IN_FLIGHT)
    grace_s = 0 if resource is PODS else None

    async def remove(namespace: str, one: str) -> bool:
        async with places:
            try:
                await retry_call(
                    lambda: client.delete(resource, namespace, one, grace_s=grace_s),
                    _PATIENCE,
                    random,
                    is_worth=is_worth_retrying,
                )
            except ApiError as error:
                if not error.is_gone:
                    raise
                return False
            return True

    tasks = [asyncio.ensure_future(remove(*_key(item))) for item in listing.items]
    try:
        return sum(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(item: Object | UndecodableObject) -> tuple[str, str]:
    """Return namespace and name, also of an object that could not be read further."""
    found = item if isinstance(item, UndecodableObject) else item.metadata
    return found.namespace, found.name
