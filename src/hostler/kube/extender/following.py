"""An adviser that follows a live cluster: nodes, and the pods of every scheduler that run on them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Any

from hostler.engine import Engine, Registry
from hostler.engine.mixes import with_mixes
from hostler.errors import HostlerError
from hostler.kube.api.client import Broken, Client
from hostler.kube.api.clock import Clock
from hostler.kube.api.reflector import Reflector, Update
from hostler.kube.api.resources import PODS, Resource
from hostler.kube.extender.advising import Adviser
from hostler.kube.extender.service import Service
from hostler.kube.facts.kinds import KINDS
from hostler.kube.facts.world import World
from hostler.manifests import Pod
from hostler.model import DeviceRequest, Event, GuestArrived, GuestsArrived, GuestSpec, Policy

__all__ = ["Follower"]


class Follower:
    """Keeps a service's adviser at what the cluster is."""

    def __init__(
        self,
        client: Client,
        service: Service,
        policy: Policy,
        *,
        clock: Clock,
        random: random.Random,
        registry: Registry | None = None,
        seed: int = 0,
    ) -> None:
        self.world = World({})  # no pod is ours: those that run count, those that wait are asked about
        self.refused = 0  # facts that the engine did not take
        self._service = service
        self._policy = policy
        self._clock = clock
        self._registry = registry
        self._seed = seed
        self._engine: Engine | None = None
        self._reflectors = [
            Reflector(client, kind.resource, self._observe, clock=clock, random=random, is_optional=kind.is_optional)
            for kind in KINDS
        ]

    async def run(self) -> None:
        """Follow for ever; cancelled to end."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors:
                tasks.create_task(reflector.run())
            for reflector in self._reflectors:
                await reflector.synced.wait()
            self._open()

    def problems(self) -> list[str]:
        """Say what keeps the cluster from being known."""
        return [one.last_error for one in self._reflectors if one.last_error]

    def _open(self) -> None:
        events = self.world.open(self._clock.now())
        (policy,) = with_mixes([self._policy], list(_specs(events)))
        self._engine = Engine([policy], self._clock.now(), self._seed, registry=self._registry)
        self._apply(events)
        adviser = Adviser(self._engine)
        adviser.rank("", GuestSpec(devices=(DeviceRequest("gpu"),)), [*self.world.hosts][:1])  # loads what is compiled
        self._service.adviser = adviser

    def _observe(self, resource: Resource[Any], updates: Sequence[Update[Any]]) -> None:
        events = self.world.take(resource, updates, self._clock.now())
        if resource is PODS:
            for update in updates:
                for uid in _settled(update):
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


def _specs(events: Iterable[Event]) -> Iterable[GuestSpec]:
    for event in events:
        if isinstance(event, GuestArrived):
            yield event.guest.spec
        elif isinstance(event, GuestsArrived):
            yield from (event.specs[number] for number in event.spec_of)


def _settled(update: Update[Any]) -> Iterable[str]:
    """Return the uids of pods that are where they are, or gone."""
    old, new = update.old, update.new
    if isinstance(new, Pod) and new.spec.node_name:
        yield new.metadata.uid
    if old is not None and (new is None or _uid(old) != _uid(new)):
        yield _uid(old)


def _uid(item: Pod | Broken) -> str:
    return item.metadata.uid if isinstance(item, Pod) else item.uid
