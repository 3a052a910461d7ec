"""Extenders on a live cluster: the pod and the nodes that they are sent are read from the API as they are.

We keep only the fields that we read ourselves, and an extender may look at any other. So a pod is fetched for each
question; whole nodes, which only extenders without a memory of their own want, are listed once and kept for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import Client
from hostler.kube.api.clock import NANOSECONDS, Clock
from hostler.kube.api.resources import NODES, PODS
from hostler.kube.extender.asking import Extenders
from hostler.kube.extender.protocol import name_of
from hostler.kube.facts.world import World
from hostler.model import Answered, Ask

__all__ = ["answers_from"]

Json = dict[str, Any]
_KEPT_S = 5.0


class _List(msgspec.Struct):
    items: list[Json] = []


def answers_from(
    extenders: Extenders, world: World, client: Client, clock: Clock
) -> Callable[[Ask], Awaitable[Answered]]:
    """Return what answers the engine's questions by asking the extenders."""
    nodes = _Nodes(client, clock)

    async def answer(ask: Ask) -> Answered:
        view = world.pods.get(ask.uid)
        if view is None:
            return Answered(uid=ask.uid, ask=ask.ask, error="the pod is gone")
        body = await client.read(PODS.path(view.namespace, view.name))
        try:
            pod = msgspec.json.decode(body, type=Json)
        except msgspec.MsgspecError as error:
            raise InputError(f"pod {view.namespace}/{view.name} cannot be read: {error}") from error
        metadata = pod.get("metadata")
        if view.uid and (not isinstance(metadata, dict) or metadata.get("uid") != view.uid):
            return Answered(uid=ask.uid, ask=ask.ask, error="another pod has its name by now")
        return await extenders.answer(ask, pod, nodes.find)

    return answer


class _Nodes:
    """Whole nodes by name, at most some seconds old."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, Json] = {}
        self._until = 0

    async def find(self, names: Sequence[str]) -> list[Json]:
        """Return the nodes with these names; those that are gone are left out."""
        if self._clock.now() >= self._until or any(name not in self._known for name in names):
            body = await self._client.read(f"{NODES.path()}?resourceVersion=0")
            try:
                items = msgspec.json.decode(body, type=_List).items
            except msgspec.MsgspecError as error:
                raise InputError(f"the nodes cannot be read: {error}") from error
            self._known = {name_of(item): item for item in items}
            self._until = self._clock.now() + int(_KEPT_S * NANOSECONDS)
        return [self._known[name] for name in names if name in self._known]
