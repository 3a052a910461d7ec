"""Metrics with kube-scheduler's names and our prefix (kubernetes/kubernetes pkg/scheduler/metrics/metrics.go).

``METRICS`` declares all metrics of a scheduler. Events are counted where they happen; states (queues, windows, ages)
are read on request. Used by ``loop``, ``process`` and ``service``.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from hostler.kube.scheduler.core import TurnResult
from hostler.model import Bind, Defer, Nominate
from hostler.runtime.metrics import MetricSpec, MetricTable

__all__ = ["METRICS", "SchedulerMeters"]

_TRY = ("result", "profile")
_ATTEMPTS = tuple(0.001 * 2**n for n in range(15))
_LIFE = tuple(0.01 * 2**n for n in range(20))
_VICTIMS = tuple(2.0**n for n in range(7))


METRICS = MetricTable(
    "hostler_",
    # Counted where events happen.
    MetricSpec("counter", "schedule_attempts", "Attempts to schedule a pod.", _TRY),
    MetricSpec(
        "histogram",
        "scheduling_attempt_duration_seconds",
        "Time from the decision to the response to the bind.",
        _TRY,
        _ATTEMPTS,
    ),
    MetricSpec(
        "histogram", "scheduling_algorithm_duration_seconds", "Duration of a turn of the engine.", (), _ATTEMPTS
    ),
    MetricSpec(
        "histogram", "pod_scheduling_sli_duration_seconds", "Time from a pod's creation to its bind.", (), _LIFE
    ),
    MetricSpec("gauge", "engine_longest_turn_seconds", "Duration of the longest turn so far."),
    MetricSpec("counter", "refused_facts", "Facts that the engine rejected."),
    MetricSpec("counter", "failed_decisions", "Decisions that failed in a plugin."),
    MetricSpec("counter", "preemption_attempts", "Evictions that were decided."),
    MetricSpec("histogram", "preemption_victims", "Victims per preemption.", (), _VICTIMS),
    MetricSpec("counter", "queue_incoming_pods", "Pods added to a queue.", ("event", "queue")),
    MetricSpec(
        "counter", "podgroup_schedule_attempts", "Attempts to place a gang or more of its members.", ("result",)
    ),
    MetricSpec("counter", "gang_wait_timeouts", "Gangs that waited too long for their minimum of members."),
    MetricSpec("counter", "disruption_budgets_broken", "Evictions that broke a disruption budget."),
    MetricSpec("counter", "lease_losses", "Number of lost leases."),
    # Read on request by ``service.collector``.
    MetricSpec("gauge", "pending_pods", "Waiting pods by queue.", ("queue",)),
    MetricSpec("gauge", "unschedulable_pods", "Waiting pods rejected by a plugin on some node.", ("plugin",)),
    MetricSpec("gauge", "cache_size", "Objects in the cache, by type.", ("type",)),
    MetricSpec(
        "gauge",
        "oldest_pending_pod_seconds",
        "Age of the longest waiting pod, by priority.",
        ("priority",),
    ),
    MetricSpec("gauge", "binds_in_flight", "Binds in flight."),
    MetricSpec("gauge", "binds_waiting", "Unfinished binds."),
    MetricSpec("gauge", "bind_window", "Limit of binds in flight."),
    MetricSpec("gauge", "breaker_open", "1 while the API server does not respond."),
    MetricSpec("counter", "breaker_openings", "Number of outages of the API server."),
    MetricSpec("gauge", "trail_backlog", "Unwritten conditions and events."),
    MetricSpec("counter", "binds", "Binds by outcome.", ("outcome",)),
    MetricSpec("counter", "binds_to_vanished_nodes", "Binds that the server accepted although the node was gone."),
    MetricSpec("counter", "evictions", "Evicted pods."),
    MetricSpec(
        "counter",
        "repeated_evictions",
        "Evictions for a pod or gang on a node that was already cleared for it in vain.",
    ),
    MetricSpec("gauge", "view_age_seconds", "Time since the last update of a resource.", ("resource",)),
    MetricSpec("counter", "relists", "Relists.", ("resource",)),
    MetricSpec("counter", "watch_failures", "Failed lists and watches.", ("resource",)),
    MetricSpec("gauge", "poison_objects", "Invalid objects."),
    MetricSpec("gauge", "facts_waiting", "Facts waiting for the next turn."),
    MetricSpec(
        "gauge",
        "engine_seconds_max",
        "Longest wait for the engine's thread in the last minute.",
    ),
    MetricSpec("gauge", "leader", "1 while this process may write."),
    MetricSpec(
        "gauge",
        "missing_scheduled_events",
        "Pods bound before this process started that have no Scheduled event.",
    ),
)


class SchedulerMeters:
    """The metrics of one process; they continue when the lease is lost and acquired again."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        self.schedule_attempts = METRICS.counter("schedule_attempts", r)
        self.attempt_duration = METRICS.histogram("scheduling_attempt_duration_seconds", r)
        self.algorithm_duration = METRICS.histogram("scheduling_algorithm_duration_seconds", r)
        self.sli_duration = METRICS.histogram("pod_scheduling_sli_duration_seconds", r)
        self.longest_turn = METRICS.gauge("engine_longest_turn_seconds", r)
        self.refused_facts = METRICS.counter("refused_facts", r)
        self.failed_decisions = METRICS.counter("failed_decisions", r)
        self.preemption_attempts = METRICS.counter("preemption_attempts", r)
        self.preemption_victims = METRICS.histogram("preemption_victims", r)
        self.queue_incoming = METRICS.counter("queue_incoming_pods", r)
        self.podgroup_attempts = METRICS.counter("podgroup_schedule_attempts", r)
        self.gang_timeouts = METRICS.counter("gang_wait_timeouts", r)
        self.broken_budgets = METRICS.counter("disruption_budgets_broken", r)
        self.lease_losses = METRICS.counter("lease_losses", r)
        self._longest_ns = 0

    def count_turn(self, turn: TurnResult, group_of: Callable[[str], str]) -> None:
        """Count one turn of the engine; ``group_of`` returns the gang of a pod by uid."""
        self.algorithm_duration.observe(turn.took_ns / 1e9)
        if turn.took_ns > self._longest_ns:
            self._longest_ns = turn.took_ns
            self.longest_turn.set(turn.took_ns / 1e9)
        if turn.refused:
            self.refused_facts.inc(len(turn.refused))
        if turn.failed:
            self.failed_decisions.inc(len(turn.failed))
        if turn.broken:
            self.broken_budgets.inc(len(turn.broken))
        self._count_actions(turn, group_of)

    def count_incoming(self, event: str, queue: str, count: int = 1) -> None:
        """Count pods added to a queue, with kube-scheduler's names of events and queues."""
        self.queue_incoming.labels(event, queue).inc(count)

    def count_attempts(self, result: str, profile: str) -> None:
        """Count one attempt."""
        self.schedule_attempts.labels(result, profile).inc()

    def count_bound(self, profile: str, attempt_s: float, life_s: float) -> None:
        """Count a pod that was bound."""
        self.schedule_attempts.labels("scheduled", profile).inc()
        self.attempt_duration.labels("scheduled", profile).observe(attempt_s)
        self.sli_duration.observe(max(0.0, life_s))

    def _count_actions(self, turn: TurnResult, group_of: Callable[[str], str]) -> None:
        groups: dict[tuple[str, str], None] = {}
        for action in turn.actions:
            if isinstance(action, Nominate):
                if action.host and action.victims:
                    self.preemption_attempts.inc()
                    self.preemption_victims.observe(len(action.victims))
            elif isinstance(action, Defer):
                self.count_incoming("ScheduleAttemptFailure", "unschedulable")
                groups[group_of(action.uid), "unschedulable"] = None
            elif isinstance(action, Bind):
                groups[group_of(action.uid), "scheduled"] = None
        for group, result in groups:
            if group:
                self.podgroup_attempts.labels(result).inc()
