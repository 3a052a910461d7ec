"""What is, as metrics: read when somebody asks, under kube-scheduler's stems with our prefix. Used by ``pages``."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hostler.kube.api.clock import NANOSECONDS, Clock
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.numbers import Numbers

__all__ = ["METRICS_TYPE", "metrics_text"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "hostler_"
# kube-scheduler's own stems: these are shown under its prefix too where that is wanted.
SHARED = (
    "schedule_attempts",
    "scheduling_attempt_duration_seconds",
    "scheduling_algorithm_duration_seconds",
    "pod_scheduling_sli_duration_seconds",
    "pending_pods",
    "preemption_victims",
    "preemption_attempts",
    "unschedulable_pods",
    "queue_incoming_pods",
    "cache_size",
    "podgroup_schedule_attempts",
)


def metrics_text(
    scheduler: Scheduler, clock: Clock, numbers: Numbers, missing_events: int | None, *, with_shared: bool = False
) -> bytes:
    """Return all metrics as text; ``with_shared``: those of kube-scheduler under its prefix too."""
    registry = CollectorRegistry()
    registry.register(_Now(scheduler, clock, numbers, missing_events))
    text = generate_latest(scheduler.meters.registry) + generate_latest(registry)
    return text + _shared(text) if with_shared else text


def _shared(text: bytes) -> bytes:
    """Return the lines of shared stems under the other prefix."""
    found = []
    for line in text.decode().splitlines():
        words = line.split(" ", 3)
        name = words[2] if line.startswith("# ") else words[0].partition("{")[0]
        if name.removeprefix(PREFIX).startswith(SHARED) and "_created" not in name:
            found.append(line.replace(PREFIX, "scheduler_", 1))
    return "".join(f"{line}\n" for line in found).encode()


class _Now(Collector):
    """One look at a scheduler."""

    def __init__(self, scheduler: Scheduler, clock: Clock, numbers: Numbers, missing_events: int | None) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._numbers = numbers
        self._missing_events = missing_events

    def collect(self) -> Iterator[Metric]:
        """Yield everything that is read, not counted."""
        yield from self._queues()
        yield from self._writes()
        yield from self._view()
        held = self._scheduler.mandate.is_held
        yield _one("leader", "1 while this process may write.", int(held))
        if self._missing_events is not None:
            text = "Pods of ours that were bound before this process began and have no Scheduled event."
            yield _one("missing_scheduled_events", text, self._missing_events)

    def _queues(self) -> Iterator[Metric]:
        numbers, world = self._numbers, self._scheduler.world
        gated = sum(view.is_gated and view.is_ours and not view.is_leaving for view in world.pods.values())
        pods = GaugeMetricFamily(f"{PREFIX}pending_pods", "Pods that wait, by queue.", labels=["queue"])
        for queue, value in (
            ("active", numbers.active),
            ("backoff", numbers.backoff),
            ("unschedulable", numbers.unschedulable),
            ("gated", gated + numbers.gathering),
        ):
            pods.add_metric([queue], value)
        yield pods
        text = "Waiting pods that a plugin keeps from some node."
        refused = GaugeMetricFamily(f"{PREFIX}unschedulable_pods", text, labels=["plugin"])
        for plugin, value in numbers.refused_by:
            refused.add_metric([plugin], value)
        yield refused
        sizes = GaugeMetricFamily(f"{PREFIX}cache_size", "What is known, by type.", labels=["type"])
        for kind, size in (
            ("nodes", len(world.hosts)),
            ("pods", len(world.pods)),
            ("assumed_pods", self._scheduler.binder.backlog),
        ):
            sizes.add_metric([kind], size)
        yield sizes
        yield self._oldest()

    def _oldest(self) -> Metric:
        text = "Age of the pod that has waited longest, by priority."
        ages: dict[int, float] = {}
        pods, now = self._scheduler.world.pods, self._clock.now()
        for uid in self._numbers.waiting:
            pod = pods.get(uid)
            if pod is not None and pod.created:
                ages[pod.priority] = max(ages.get(pod.priority, 0.0), (now - pod.created) / NANOSECONDS)
        family = GaugeMetricFamily(f"{PREFIX}oldest_pending_pod_seconds", text, labels=["priority"])
        for priority, age in sorted(ages.items()):
            family.add_metric([str(priority)], age)
        return family

    def _writes(self) -> Iterator[Metric]:
        scheduler = self._scheduler
        yield _one("binds_in_flight", "Binds that were sent and not answered.", scheduler.binder.in_flight)
        yield _one("binds_waiting", "Binds that are not finished.", scheduler.binder.backlog)
        yield _one("bind_window", "Binds that may be in flight now.", scheduler.binder.window.size)
        yield _one("breaker_open", "1 while the API server counts as away.", int(scheduler.breaker.is_open))
        yield _total("breaker_openings", "Times that the API server was found away.", scheduler.breaker.openings)
        yield _one("trail_backlog", "Conditions and events that are not written yet.", scheduler.trail.backlog)
        counts = scheduler.binder.counts
        binds = CounterMetricFamily(f"{PREFIX}binds", "What became of binds.", labels=["outcome"])
        for outcome in counts.__struct_fields__:
            binds.add_metric([outcome], getattr(counts, outcome))
        yield binds
        text = "Binds that were taken although the node was gone."
        yield _total("binds_to_vanished_nodes", text, scheduler.binder.to_vanished)
        evictions = scheduler.hands.evictor.counts
        yield _total("evictions", "Pods that were evicted.", evictions.evicted)
        text = "Evictions for a pod or gang on a node that was cleared for it before, in vain."
        yield _total("repeated_evictions", text, evictions.repeated)

    def _view(self) -> Iterator[Metric]:
        now = self._clock.now()
        ages = GaugeMetricFamily(
            f"{PREFIX}view_age_seconds", "Since a resource was last heard of.", labels=["resource"]
        )
        relists = CounterMetricFamily(f"{PREFIX}relists", "Lists after the first.", labels=["resource"])
        failures = CounterMetricFamily(f"{PREFIX}watch_failures", "Failed lists and watches.", labels=["resource"])
        for one in self._scheduler.reflectors.values():
            name = f"{one.resource.plural}.{one.resource.group}" if one.resource.group else one.resource.plural
            if one.heard_at:
                ages.add_metric([name], (now - one.heard_at) / NANOSECONDS)
            relists.add_metric([name], one.relists)
            failures.add_metric([name], one.failures)
        yield from (ages, relists, failures)
        yield _one(
            "poison_objects", "Objects that could not be taken as they are.", len(self._scheduler.world.problems())
        )
        yield _one("facts_waiting", "Facts for the next turn.", self._scheduler.loop.inbox)


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", text, value=value)


def _total(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"{PREFIX}{name}", text, value=value)
