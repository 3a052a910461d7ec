"""An independent watcher: when each pod got its node, and how many Scheduled events there are."""

from __future__ import annotations

import asyncio
import time

from bench.kube.objects import NAMESPACE
from hostler.kube.api.client import KubeClient
from hostler.kube.api.resources import Named, Resource
from hostler.manifests.objects.metadata import Metadata, ObjectStruct

__all__ = ["BindWatcher"]


class _Spec(ObjectStruct, frozen=True):
    node_name: str = ""


class _Pod(ObjectStruct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()


class _Event(ObjectStruct, frozen=True):
    metadata: Metadata = Metadata()
    reason: str = ""


_PODS = Resource(struct=_Pod, kind="Pod", plural="pods")
_EVENTS = Resource(struct=_Event, kind="Event", plural="events", group="events.k8s.io")
_VERSION = Resource(struct=Named, kind="Namespace", plural="namespaces", is_namespaced=False)


class BindWatcher:
    """Watches pods and events from now on; seconds are those of ``time.perf_counter``."""

    def __init__(self, client: KubeClient) -> None:
        self.bound_at: dict[str, float] = {}
        self.scheduled_events: list[float] = []
        self._client = client
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Begin to watch."""
        version = (await self._client.list(_VERSION)).version
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._pods(version)), loop.create_task(self._events(version))]

    async def stop(self) -> None:
        """End watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_bound(self, names: set[str], patience_s: float) -> bool:
        """Wait until all these pods have nodes; return whether they got them in time."""
        return await self._until(lambda: names <= self.bound_at.keys(), patience_s)

    async def until_told(self, count: int, patience_s: float) -> bool:
        """Wait until this many Scheduled events were written."""
        return await self._until(lambda: len(self.scheduled_events) >= count, patience_s)

    async def _until(self, is_done, patience_s: float) -> bool:
        until = time.perf_counter() + patience_s
        while not is_done():
            left = until - time.perf_counter()
            if left <= 0:
                return False
            self._changed.clear()
            try:
                async with asyncio.timeout(min(left, 1.0)):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return True

    async def _pods(self, version: str) -> None:
        while True:
            async for batch in self._client.watch(_PODS, version, namespace=NAMESPACE, silence_s=600):
                now = time.perf_counter()
                for change in batch:
                    version = change.version or version
                    pod = change.item
                    if isinstance(pod, _Pod) and pod.spec.node_name:
                        self.bound_at.setdefault(pod.metadata.name, now)
                self._changed.set()

    async def _events(self, version: str) -> None:
        while True:
            async for batch in self._client.watch(_EVENTS, version, namespace=NAMESPACE, silence_s=600):
                now = time.perf_counter()
                for change in batch:
                    version = change.version or version
                    if change.kind == "added" and isinstance(change.item, _Event) and change.item.reason == "Scheduled":
                        self.scheduled_events.append(now)
                self._changed.set()
