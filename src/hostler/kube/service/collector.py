"""Metrics that are read on request, with kube-scheduler's names and our prefix. Used by ``pages``."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hostler.kube.scheduler.meters import METRICS
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.numbers import QueueNumbers
from hostler.runtime.clock import NANOSECONDS, Clock

__all__ = ["metrics_text"]

# kube-scheduler's own metrics: served under its prefix too, on request
SHARED = (
    "schedule_attempts",
    "scheduling_attempt_duration_seconds",
    "scheduling_algorithm_duration_seconds",
    "pod_scheduling_sli_duration_seconds",
    "pod_scheduling_attempts",
    "pending_pods",
    "preemption_victims",
    "preemption_attempts",
    "unschedulable_pods",
    "queue_incoming_pods",
    "cache_size",
    "podgroup_schedule_attempts",
)


def metrics_text(
    scheduler: Scheduler, clock: Clock, numbers: QueueNumbers, missing_events: int | None, *, with_shared: bool = False
) -> bytes:
    """Return all metrics as text; ``with_shared``: kube-scheduler's metrics under its own prefix too."""
    registry = CollectorRegistry()
    registry.register(_Now(scheduler, clock, numbers, missing_events))
    text = generate_latest(scheduler.meters.registry) + generate_latest(registry)
    return text + _shared_lines(text) if with_shared else text


def _shared_lines(text: bytes) -> bytes:
    """Return the lines of shared metrics under the other prefix."""
    found = []
    for line in text.decode().splitlines():
        words = line.split(" ", 3)
        name = words[2] if line.startswith("# ") else words[0].partition("{")[0]
        if name.removeprefix(METRICS.prefix).startswith(SHARED) and "_created" not in name:
            found.append(line.replace(METRICS.prefix, "scheduler_", 1))
    return "".join(f"{line}\n" for line in found).encode()


class _Now(Collector):
    """The state of a scheduler at one moment."""

    def __init__(self, scheduler: Scheduler, clock: Clock, numbers: QueueNumbers, missing_events: int | None) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._numbers = numbers
        self._missing_events = missing_events

    def collect(self) -> Iterator[Metric]:
        """Yield every metric that is read, not counted."""
        yield from self._queues()
        yield from self._writes()
        yield from self._view()
        yield METRICS.one("engine_seconds_max", self._scheduler.longest_stall_s())
        yield METRICS.one("leader", int(self._scheduler.mandate.is_held))
        if self._missing_events is not None:
            yield METRICS.one("missing_scheduled_events", self._missing_events)

    def _queues(self) -> Iterator[Metric]:
        numbers, cluster = self._numbers, self._scheduler.cluster
        gated = sum(view.is_gated and view.is_ours and not view.is_leaving for view in cluster.pods.values())
        waiting = {
            "active": numbers.active,
            "backoff": numbers.backoff,
            "unschedulable": numbers.unschedulable,
            "gated": gated + numbers.gathering,
        }
        yield METRICS.by("pending_pods", waiting)
        yield METRICS.by("unschedulable_pods", dict(numbers.refused_by))
        sizes = {
            "nodes": len(cluster.hosts),
            "pods": len(cluster.pods),
            "assumed_pods": self._scheduler.binder.backlog,
        }
        yield METRICS.by("cache_size", sizes)
        yield METRICS.by("node_utilization", dict(numbers.used))
        yield METRICS.by("fullest_node_utilization", dict(numbers.used_on_fullest))
        yield METRICS.by("oldest_pending_pod_seconds", self._oldest())

    def _oldest(self) -> dict[str, float]:
        ages: dict[int, float] = {}
        pods, now = self._scheduler.cluster.pods, self._clock.now()
        for uid in self._numbers.waiting:
            pod = pods.get(uid)
            if pod is not None and pod.created:
                ages[pod.priority] = max(ages.get(pod.priority, 0.0), (now - pod.created) / NANOSECONDS)
        return {str(priority): age for priority, age in sorted(ages.items())}

    def _writes(self) -> Iterator[Metric]:
        scheduler = self._scheduler
        yield METRICS.one("binds_in_flight", scheduler.binder.in_flight)
        yield METRICS.one("binds_waiting", scheduler.binder.backlog)
        yield METRICS.one("bind_window", scheduler.binder.window.size)
        yield METRICS.one("breaker_open", int(scheduler.breaker.is_open))
        yield METRICS.one("breaker_openings", scheduler.breaker.openings)
        yield METRICS.one("trail_backlog", scheduler.write_queue.backlog)
        yield METRICS.by("binds", msgspec.structs.asdict(scheduler.binder.counts))
        yield METRICS.one("binds_to_vanished_nodes", scheduler.binder.to_vanished)
        evictions = scheduler.executors.evictor.counts
        yield METRICS.one("evictions", evictions.evicted)
        yield METRICS.one("repeated_evictions", evictions.repeated)

    def _view(self) -> Iterator[Metric]:
        now = self._clock.now()
        ages: dict[str, float] = {}
        relists: dict[str, float] = {}
        failures: dict[str, float] = {}
        for one in self._scheduler.reflectors.values():
            name = f"{one.resource.plural}.{one.resource.group}" if one.resource.group else one.resource.plural
            if one.heard_at:
                ages[name] = (now - one.heard_at) / NANOSECONDS
            relists[name] = one.relists
            failures[name] = one.failures
        yield METRICS.by("view_age_seconds", ages)
        yield METRICS.by("relists", relists)
        yield METRICS.by("watch_failures", failures)
        yield METRICS.one("poison_objects", len(self._scheduler.cluster.problems()))
        yield METRICS.one("facts_waiting", self._scheduler.loop.inbox)
