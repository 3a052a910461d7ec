"""What a pod's status tells its owner: the condition PodScheduled, and the node that is kept for it.

For each pod only the newest wish counts: what was not written yet is replaced, and while one is being written the next
waits, so that no older news arrives after it. Used by ``loop``.
"""

from __future__ import annotations

import asyncio

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.client import Client
from hostler.kube.api.clock import Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.patience import is_worth_retrying
from hostler.kube.api.resources import PODS
from hostler.kube.facts.views import PodView
from hostler.kube.facts.world import World
from hostler.kube.scheduler.times import second_time
from hostler.kube.scheduler.trail import Trail

__all__ = ["UNSCHEDULABLE", "Statuses"]

UNSCHEDULABLE = "Unschedulable"
_LOOK_AGAIN_S = 0.5  # after somebody else changed the pod: until the watch shows it


class _Wish(msgspec.Struct):
    """What a pod's status should say; None: as it is."""

    condition: tuple[str, str] | None = None  # reason, message
    nominated: str | None = None


class Statuses:
    """Writes the status of pods that wait."""

    def __init__(self, client: Client, world: World, clock: Clock, trail: Trail, timeout_s: float) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._trail = trail
        self._timeout_s = timeout_s
        self._wishes: dict[str, _Wish] = {}
        self._writing: set[str] = set()
        self._versions: dict[str, str] = {}  # of pods as we wrote them, which the watch may not show yet
        self._said: dict[str, tuple[str, str]] = {}  # conditions that we wrote, which the watch may not show yet

    def refuse(self, pod: PodView, message: str, reason: str = UNSCHEDULABLE) -> bool:
        """Say why a pod waits; return whether that is news."""
        told = self._said.get(pod.uid, pod.condition)
        if told == (reason, message):
            return False
        self._said[pod.uid] = (reason, message)
        self._wish(pod.uid).condition = (reason, message)
        return True

    def nominate(self, pod: PodView, node: str) -> None:
        """Say for which node a pod waits; none: for no one."""
        self._wish(pod.uid).nominated = node

    def forget(self, uid: str) -> None:
        """Say nothing more about a pod: it was placed, or is gone."""
        self._wishes.pop(uid, None)
        self._said.pop(uid, None)
        self._versions.pop(uid, None)

    def _wish(self, uid: str) -> _Wish:
        wish = self._wishes.get(uid)
        if wish is None:
            wish = self._wishes[uid] = _Wish()
            if uid not in self._writing:
                self._trail.soon(lambda: self._write(uid))
        return wish

    async def _write(self, uid: str) -> None:
        wish = self._wishes.pop(uid, None)
        pod = self._world.pods.get(uid)
        if wish is None or pod is None or pod.node:
            return
        self._writing.add(uid)
        try:
            written = await self._client.patch(
                PODS,
                pod.namespace,
                pod.name,
                self._patch(pod, wish),
                part="status",
                kind="strategic",
                timeout_s=self._timeout_s,
            )
        except HostlerError as error:
            self._writing.discard(uid)
            if is_worth_retrying(error):
                self._wish_again(uid, wish)  # the trail calls us again
            elif isinstance(error, ApiError) and error.is_conflict:
                self._wish_again(uid, wish)
                asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._go_on, uid)
            else:
                self._go_on(uid)
            raise
        self._writing.discard(uid)
        self._versions[uid] = str(written.metadata.resource_version)
        self._go_on(uid)

    def _go_on(self, uid: str) -> None:
        """Write what was wished for meanwhile."""
        if uid in self._wishes:
            self._trail.soon(lambda: self._write(uid))

    def _wish_again(self, uid: str, wish: _Wish) -> None:
        """Keep what could not be written, as far as nothing newer was wished for."""
        newer = self._wishes.setdefault(uid, wish)
        newer.condition = newer.condition or wish.condition
        newer.nominated = wish.nominated if newer.nominated is None else newer.nominated

    def _patch(self, pod: PodView, wish: _Wish) -> dict[str, object]:
        status: dict[str, object] = {}
        if wish.condition is not None:
            reason, message = wish.condition
            at = second_time(self._clock.now())
            condition: dict[str, object] = {"type": "PodScheduled", "status": "False", "reason": reason}
            condition |= {"message": message, "lastProbeTime": None}
            if pod.condition == ("", ""):
                condition["lastTransitionTime"] = at
            status["conditions"] = [condition]
        if wish.nominated is not None:
            status["nominatedNodeName"] = wish.nominated or None
        # The version keeps a late patch from saying of a pod that was bound meanwhile that it waits.
        version = max(pod.version, self._versions.get(pod.uid, ""), key=_age)
        return {"metadata": {"uid": pod.uid, "resourceVersion": version}, "status": status}


def _age(version: str) -> int:
    return int(version) if version.isdecimal() else 0
