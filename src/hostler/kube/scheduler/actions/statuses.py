"""The status of pending pods: the condition PodScheduled and the nominated node.

For each pod only the newest state counts. An unwritten older one is replaced; while one is being written, the next
waits, so that no older state arrives after a newer one. Used by ``loop``.
"""

from __future__ import annotations

import asyncio

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError, is_worth_retrying
from hostler.kube.api.resources import PODS
from hostler.kube.facts.views import PodView
from hostler.kube.facts.watched_cluster import WatchedCluster
from hostler.kube.scheduler.actions.write_queue import WriteQueue
from hostler.kube.scheduler.times import second_time
from hostler.runtime.clock import Clock

__all__ = ["UNSCHEDULABLE", "Statuses"]

UNSCHEDULABLE = "Unschedulable"
_LOOK_AGAIN_S = 0.5  # after a conflict: until the watch shows the other change


class _PendingStatus(msgspec.Struct):
    """The status that a pod should get; None: unchanged."""

    condition: tuple[str, str] | None = None  # reason, message
    nominated: str | None = None


class Statuses:
    """Writes the status of pending pods."""

    def __init__(
        self, client: KubeClient, cluster: WatchedCluster, clock: Clock, write_queue: WriteQueue, timeout_s: float
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._write_queue = write_queue
        self._timeout_s = timeout_s
        self._pending: dict[str, _PendingStatus] = {}
        self._writing: set[str] = set()
        self._versions: dict[str, str] = {}  # of pods as we wrote them, which the watch may not show yet
        self._said: dict[str, tuple[str, str]] = {}  # conditions that we wrote, which the watch may not show yet

    def report_unschedulable(self, pod: PodView, message: str, reason: str = UNSCHEDULABLE) -> bool:
        """Report why a pod waits; return whether that is new."""
        told = self._said.get(pod.uid, pod.condition)
        if told == (reason, message):
            return False
        self._said[pod.uid] = (reason, message)
        self._pending_of(pod.uid).condition = (reason, message)
        return True

    def nominate(self, pod: PodView, node: str) -> None:
        """Set or clear the nominated node of a pod."""
        self._pending_of(pod.uid).nominated = node

    def forget(self, uid: str) -> None:
        """Stop writing about a pod: it was placed, or is gone."""
        self._pending.pop(uid, None)
        self._said.pop(uid, None)
        self._versions.pop(uid, None)

    def _pending_of(self, uid: str) -> _PendingStatus:
        pending = self._pending.get(uid)
        if pending is None:
            pending = self._pending[uid] = _PendingStatus()
            if uid not in self._writing:
                self._write_queue.soon(lambda: self._write(uid))
        return pending

    async def _write(self, uid: str) -> None:
        pending = self._pending.pop(uid, None)
        pod = self._cluster.pods.get(uid)
        if pending is None or pod is None or pod.node:
            return
        self._writing.add(uid)
        try:
            written = await self._client.patch(
                PODS,
                pod.namespace,
                pod.name,
                self._patch(pod, pending),
                part="status",
                kind="strategic",
                timeout_s=self._timeout_s,
            )
        except HostlerError as error:
            self._writing.discard(uid)
            if is_worth_retrying(error):
                self._restore(uid, pending)  # the write queue retries
            elif isinstance(error, ApiError) and error.is_conflict:
                self._restore(uid, pending)
                asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._go_on, uid)
            else:
                self._go_on(uid)
            raise
        self._writing.discard(uid)
        self._versions[uid] = str(written.metadata.resource_version)
        self._go_on(uid)

    def _go_on(self, uid: str) -> None:
        """Write the state that was set meanwhile."""
        if uid in self._pending:
            self._write_queue.soon(lambda: self._write(uid))

    def _restore(self, uid: str, pending: _PendingStatus) -> None:
        """Keep what could not be written, unless there is a newer state."""
        newer = self._pending.setdefault(uid, pending)
        newer.condition = newer.condition or pending.condition
        newer.nominated = pending.nominated if newer.nominated is None else newer.nominated

    def _patch(self, pod: PodView, pending: _PendingStatus) -> dict[str, object]:
        status: dict[str, object] = {}
        if pending.condition is not None:
            reason, message = pending.condition
            at = second_time(self._clock.now())
            condition: dict[str, object] = {"type": "PodScheduled", "status": "False", "reason": reason}
            condition |= {"message": message, "lastProbeTime": None}
            if pod.condition == ("", ""):
                condition["lastTransitionTime"] = at
            status["conditions"] = [condition]
        if pending.nominated is not None:
            status["nominatedNodeName"] = pending.nominated or None
        # The version prevents a late patch from marking a pod as waiting that was bound meanwhile.
        version = max(pod.version, self._versions.get(pod.uid, ""), key=_age)
        return {"metadata": {"uid": pod.uid, "resourceVersion": version}, "status": status}


def _age(version: str) -> int:
    return int(version) if version.isdecimal() else 0
