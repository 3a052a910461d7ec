"""Metrics with kube-scheduler's names and our prefix (kubernetes/kubernetes pkg/scheduler/metrics/metrics.go).

``METRICS`` declares all metrics of a scheduler. Events are counted where they happen; states (queues, windows, ages)
are read on request. Used by ``loop``, ``process`` and ``service``.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from hostler.kube.scheduler.core import TurnResult
from hostler.kube.scheduler.pod_times import PodTimes
from hostler.model import Bind, Defer, Nominate
from hostler.runtime.metrics import MetricSpec, MetricTable

__all__ = ["METRICS", "SchedulerMeters"]

_TRY = ("result", "profile")
_ATTEMPTS = tuple(0.001 * 2**n for n in range(15))
_LIFE = tuple(0.01 * 2**n for n in range(20))
_VICTIMS = tuple(2.0**n for n in range(7))
_TRIES = tuple(2.0**n for n in range(5))
_MOST_TRIES = 15  # more are one label, as in kube-scheduler: a label per number would never end


METRICS = MetricTable(
    "hostler_",
    # Counted where events happen.
    MetricSpec("counter", "schedule_attempts", "Attempts to schedule a pod.", _TRY),
    MetricSpec(
        "histogram",
        "scheduling_attempt_duration_seconds",
        "Time from the start of the turn that decided a pod to the response to its bind, or to its rejection.",
        _TRY,
        _ATTEMPTS,
    ),
    MetricSpec(
        "histogram", "scheduling_algorithm_duration_seconds", "Duration of a turn of the engine.", (), _ATTEMPTS
    ),
    MetricSpec(
        "histogram",
        "pod_scheduling_sli_duration_seconds",
        "Time from when the watch delivered a pod, without scheduling gates, to its bind.",
        ("attempts",),
        _LIFE,
    ),
    MetricSpec("histogram", "pod_scheduling_attempts", "Tries until a pod was bound.", (), _TRIES),
    MetricSpec("gauge", "engine_longest_turn_seconds", "Duration of the longest turn so far."),
    MetricSpec("counter", "refused_facts", "Facts that the engine rejected."),
    MetricSpec("counter", "failed_decisions", "Decisions that failed in a plugin."),
    MetricSpec("counter", "preemption_attempts", "Preemptions that were decided, of a pod or of a whole gang."),
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
    MetricSpec(
        "gauge", "node_utilization", "Requests of pods over allocatable, of all nodes, by resource.", ("resource",)
    ),
    MetricSpec("gauge", "fullest_node_utilization", "The same of the fullest node of each resource.", ("resource",)),
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
        self.tries = METRICS.histogram("pod_scheduling_attempts", r)
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

    def count_rejected(self, profile: str, attempt_s: float) -> None:
        """Count a pod that fits nowhere now, and how long the turn took that found out."""
        self.count_attempts("unschedulable", profile)
        self.attempt_duration.labels("unschedulable", profile).observe(attempt_s)

    def count_bound(self, profile: str, now: int, times: PodTimes | None) -> None:
        """Count a pod that was bound; a pod that was deleted meanwhile has no times."""
        self.count_attempts("scheduled", profile)
        if times is None:
            return
        # The clock may have been set back.
        self.attempt_duration.labels("scheduled", profile).observe(max(0, now - times.decided) / 1e9)
        attempts = f"{_MOST_TRIES}+" if times.tries >= _MOST_TRIES else str(times.tries)
        self.sli_duration.labels(attempts).observe(max(0, now - times.arrived) / 1e9)
        self.tries.observe(times.tries)

    def _count_actions(self, turn: TurnResult, group_of: Callable[[str], str]) -> None:
        groups: dict[tuple[str, str], None] = {}
        preemptions: dict[str, int] = {}  # victims by gang, or by pod: each member of a gang names all of them
        for action in turn.actions:
            if isinstance(action, Nominate):
                if action.host and action.victims:
                    preemptions[group_of(action.uid) or action.uid] = len(action.victims)
            elif isinstance(action, Defer):
                self.count_incoming("ScheduleAttemptFailure", "unschedulable")
                groups[group_of(action.uid), "unschedulable"] = None
            elif isinstance(action, Bind):
                groups[group_of(action.uid), "scheduled"] = None
        for victims in preemptions.values():
            self.preemption_attempts.inc()
            self.preemption_victims.observe(victims)
        for group, result in groups:
            if group:
                self.podgroup_attempts.labels(result).inc()
