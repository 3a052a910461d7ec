"""Scheduled events that a crash swallowed: pods of ours that run, were bound lately, and have none.

Events trail behind binds, so those of the last moments before a crash may never have been written. They are not made
up afterwards, but counted, once, when a scheduler has started. Used by ``serving``.
"""

from __future__ import annotations

import asyncio

from hostler.kube.api.client import Broken, Client
from hostler.kube.api.clock import NANOSECONDS, Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import Resource
from hostler.kube.api.transport import TransportError
from hostler.kube.scheduler.process import Scheduler
from hostler.manifests.metadata import Metadata, Read

__all__ = ["MissingEvents"]

_KEPT_NS = 50 * 60 * NANOSECONDS  # API servers keep events for an hour: older ones say nothing
_EVERY_S = 1.0
_AGAIN_S = 30.0


class _About(Read, frozen=True):
    uid: str = ""


class _Event(Read, frozen=True):
    metadata: Metadata = Metadata()
    reason: str = ""
    regarding: _About = _About()


_EVENTS = Resource(struct=_Event, kind="Event", plural="events", group="events.k8s.io")


class MissingEvents:
    """Counts once; ``count`` is None until then, and where events may not be listed."""

    def __init__(self, scheduler: Scheduler, client: Client, clock: Clock) -> None:
        self.count: int | None = None
        self._scheduler = scheduler
        self._client = client
        self._clock = clock

    async def find(self) -> None:
        """Wait until the cluster is known and our own events are written, then look for pods without one."""
        while not self._scheduler.is_synced:
            await asyncio.sleep(_EVERY_S)
        bound = self._bound_lately()
        while bound and self._scheduler.trail.backlog:
            await asyncio.sleep(_EVERY_S)
        while bound and self.count is None:
            try:
                listing = await self._client.list(_EVENTS, fields="reason=Scheduled")
            except ApiError as error:
                if not error.is_worth_retrying:
                    return
                await asyncio.sleep(_AGAIN_S)
            except TransportError:
                await asyncio.sleep(_AGAIN_S)
            else:
                told = {item.regarding.uid for item in listing.items if not isinstance(item, Broken)}
                self.count = len(bound - told)
        self.count = self.count or 0

    def _bound_lately(self) -> set[str]:
        """Return our pods that run and are too young for their events to have expired."""
        oldest = self._clock.now() - _KEPT_NS
        pods = self._scheduler.world.pods.values()
        return {pod.uid for pod in pods if pod.is_ours and pod.node and not pod.has_ended and pod.created > oldest}
