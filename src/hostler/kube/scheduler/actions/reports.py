"""Events as kube-scheduler writes them: Scheduled, FailedScheduling, Preempted (events.k8s.io/v1).

Repeated news about a pod is counted in the series of the first event. The count is written at every doubling, so that a
pod that waits for days costs a handful of writes. Used by ``loop`` and ``evictor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from hostler.kube.api.client import KubeClient
from hostler.kube.api.resources import EVENTS
from hostler.kube.facts.views import PodView
from hostler.kube.scheduler.actions.write_queue import WriteQueue
from hostler.kube.scheduler.times import micro_time
from hostler.runtime.clock import Clock

__all__ = ["Reports"]

_NOTE_LIMIT = 1024  # the API's limit in bytes
_SERIES_PER_POD = 8


class _Series(msgspec.Struct):
    """One event that may be repeated."""

    name: str
    namespace: str
    count: int = 1
    written: int = 1


class Reports:
    """Writes events about pods."""

    def __init__(
        self, client: KubeClient, clock: Clock, write_queue: WriteQueue, *, identity: str, timeout_s: float
    ) -> None:
        self._client = client
        self._clock = clock
        self._write_queue = write_queue
        self._identity = identity
        self._timeout_s = timeout_s
        self._number = 0
        self._series: dict[str, dict[tuple[str, str], _Series]] = {}  # by uid, then by reason and note

    def report_scheduled(self, pod: PodView, node: str) -> None:
        """Report that a pod was bound to a node."""
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._create(pod, "Scheduled", "Binding", "Normal", note)
        self.forget(pod.uid)

    def report_unschedulable(self, pod: PodView, note: str, topic: str = "") -> None:
        """Report why a pod got no node. Notes on one ``topic`` are counted in the series of the first."""
        self._repeatable(pod, "FailedScheduling", "Scheduling", "Warning", note, topic)

    def report_preempted(self, victim: PodView, preemptor: PodView | None, node: str, why: str = "") -> None:
        """Report for which pod a victim is evicted; ``why`` is used if that is no pod, such as a gang."""
        whom = (
            f"Preempted by pod {preemptor.uid}" if preemptor is not None else (why[:1].upper() + why[1:] or "Preempted")
        )
        scheduler = preemptor.scheduler_name if preemptor is not None else self._identity
        self._create(victim, "Preempted", "Preempting", "Normal", f"{whom} on node {node}", scheduler)

    def warn(self, pod: PodView, reason: str, note: str) -> None:
        """Report a warning to a pod's owner."""
        self._repeatable(pod, reason, "Scheduling", "Warning", note)

    def forget(self, uid: str) -> None:
        """Forget the series of a pod."""
        self._series.pop(uid, None)

    def _repeatable(
        self, pod: PodView, reason: str, action: str, kind: Literal["Normal", "Warning"], note: str, topic: str = ""
    ) -> None:
        known = self._series.setdefault(pod.uid, {})
        about = (reason, topic or note)
        series = known.get(about)
        if series is None:
            name = self._create(pod, reason, action, kind, note)
            if len(known) >= _SERIES_PER_POD:
                del known[next(iter(known))]
            known[about] = _Series(name, pod.namespace)
            return
        series.count += 1
        if series.count >= 2 * series.written:
            series.written = series.count
            body = {"series": {"count": series.count, "lastObservedTime": micro_time(self._clock.now())}}
            self._write_queue.later(lambda: self._patch(series.namespace, series.name, body))

    async def _patch(self, namespace: str, name: str, body: Mapping[str, object]) -> None:
        await self._client.patch(EVENTS, namespace, name, body, kind="merge", timeout_s=self._timeout_s)

    def _create(self, pod: PodView, reason: str, action: str, kind: str, note: str, by: str = "") -> str:
        now = self._clock.now()
        self._number += 1
        name = f"{pod.name[:200]}.{now + self._number:x}"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "eventTime": micro_time(now),
            "reportingController": by or pod.scheduler_name or self._identity,
            "reportingInstance": self._identity[:128],
            "action": action,
            "reason": reason,
            "regarding": {
                "kind": "Pod",
                "apiVersion": "v1",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "note": note.encode()[:_NOTE_LIMIT].decode(errors="ignore"),
            "type": kind,
        }
        self._write_queue.later(lambda: self._post(pod.namespace, body))
        return name

    async def _post(self, namespace: str, body: Mapping[str, object]) -> None:
        await self._client.post(EVENTS.path(namespace), body, timeout_s=self._timeout_s)
