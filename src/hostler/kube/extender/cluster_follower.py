"""Keep an adviser current: nodes, and the pods of every scheduler that run on them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Any

from hostler.engine import Engine, Registry
from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.reflector import ObjectUpdate, Reflector
from hostler.kube.api.resources import PODS, Resource
from hostler.kube.extender.adviser import Adviser
from hostler.kube.extender.service import ExtenderService
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.manifests import Pod
from hostler.model import DeviceRequest, Event, GuestSpec, Policy
from hostler.queries import MixRenewal, with_mixes
from hostler.runtime.clock import Clock

__all__ = ["ClusterFollower"]


class ClusterFollower:
    """Keeps a service's adviser equal to the cluster."""

    def __init__(
        self,
        client: KubeClient,
        service: ExtenderService,
        policy: Policy,
        *,
        clock: Clock,
        random: random.Random,
        registry: Registry | None = None,
        seed: int = 0,
    ) -> None:
        self.cluster = WatchedCluster({})  # no pod is ours: running ones count, pending ones come as queries
        self.refused = 0  # facts that the engine rejected
        self._service = service
        self._policy = policy
        self._mixes = MixRenewal([policy])
        self._clock = clock
        self._registry = registry
        self._seed = seed
        self._engine: Engine | None = None
        self._reflectors = [
            Reflector(client, kind.resource, self._observe, clock=clock, random=random, is_optional=kind.is_optional)
            for kind in KINDS
        ]

    async def run(self) -> None:
        """Follow forever; cancel it to end."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())
            for reflector in self._reflectors:
                await reflector.synced.wait()
            self._open()

    def problems(self) -> list[str]:
        """Return what keeps the cluster from being listed and watched."""
        return [one.last_error for one in self._reflectors if one.last_error]

    def _open(self) -> None:
        events = self.cluster.open(self._clock.now())
        self._engine = Engine(with_mixes([self._policy]), self._clock.now(), self._seed, registry=self._registry)
        self._apply(events)
        adviser = Adviser(self._engine)
        adviser.rank(
            "", GuestSpec(devices=(DeviceRequest("gpu"),)), [*self.cluster.hosts][:1]
        )  # loads compiled kernels
        self._service.adviser = adviser

    def _observe(self, resource: Resource[Any], updates: Sequence[ObjectUpdate[Any]]) -> None:
        events = self.cluster.take(resource, updates, self._clock.now())
        if resource is PODS:
            for update in updates:
                for uid in _settled_uids(update):
                    self._service.forget(uid)
        self._apply(events)

    def _apply(self, events: Iterable[Event]) -> None:
        if self._engine is None:
            return
        for event in events:
            try:
                self._engine.apply(event)
            except HostlerError:
                self.refused += 1
        self._mixes.note_news()
        if change := self._mixes.renew(self._engine, self._clock.now()):
            self._engine.apply(change)


def _settled_uids(update: ObjectUpdate[Any]) -> Iterable[str]:
    """Return the uids of pods that have their node, or are gone."""
    old, new = update.old, update.new
    if isinstance(new, Pod) and new.spec.node_name:
        yield new.metadata.uid
    if old is not None and (new is None or _uid(old) != _uid(new)):
        yield _uid(old)


def _uid(item: Pod | UndecodableObject) -> str:
    return item.metadata.uid if isinstance(item, Pod) else item.uid
