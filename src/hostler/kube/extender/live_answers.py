"""Extenders on a live cluster: they receive the pod and the nodes exactly as the API returns them.

We decode only the fields that we use, but an extender may read any other. So the pod is fetched for each query. Whole
nodes are needed only by extenders that keep no cache; they are listed once and kept for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from hostler.errors import InputError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.resources import NODES, PODS
from hostler.kube.extender.extenders import Extenders
from hostler.kube.extender.protocol import name_of
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.model import Answered, Ask
from hostler.runtime.clock import NANOSECONDS, Clock

__all__ = ["answers_from"]

Json = dict[str, Any]
_KEPT_S = 5.0


class _List(msgspec.Struct):
    items: list[Json] = []


def answers_from(
    extenders: Extenders, cluster: WatchedCluster, client: KubeClient, clock: Clock
) -> Callable[[Ask], Awaitable[Answered]]:
    """Return the function that answers the engine's queries by calling the extenders."""
    nodes = _Nodes(client, clock)

    async def answer(ask: Ask) -> Answered:
        view = cluster.pods.get(ask.uid)
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
    """Whole nodes by name, at most a few seconds old."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, Json] = {}
        self._until = 0

    async def find(self, names: Sequence[str]) -> list[Json]:
        """Return the nodes with these names; missing ones are left out."""
        if self._clock.now() >= self._until or any(name not in self._known for name in names):
            body = await self._client.read(f"{NODES.path()}?resourceVersion=0")
            try:
                items = msgspec.json.decode(body, type=_List).items
            except msgspec.MsgspecError as error:
                raise InputError(f"the nodes cannot be read: {error}") from error
            self._known = {name_of(item): item for item in items}
            self._until = self._clock.now() + int(_KEPT_S * NANOSECONDS)
        return [self._known[name] for name in names if name in self._known]
