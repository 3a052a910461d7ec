"""Metrics under kube-scheduler's stems with our prefix (kubernetes/kubernetes pkg/scheduler/metrics/metrics.go).

What happens is counted where it happens; what is (queues, windows, ages) is read when somebody asks. Used by ``loop``,
``process`` and ``service``.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hostler.kube.scheduler.core import Turn
from hostler.model import Bind, Hold, Nominate

__all__ = ["Meters"]

_ATTEMPTS = tuple(0.001 * 2**n for n in range(15))
_LIFE = tuple(0.01 * 2**n for n in range(20))
_VICTIMS = tuple(2.0**n for n in range(7))


class Meters:
    """The metrics of one process; they go on when the lease is lost and had again."""

    def __init__(self, prefix: str = "hostler") -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.schedule_attempts = Counter(
            f"{prefix}_schedule_attempts", "Tries to place a pod.", ["result", "profile"], registry=r
        )
        self.attempt_duration = Histogram(
            f"{prefix}_scheduling_attempt_duration_seconds", "From the decision to the answer to the bind.",
            ["result", "profile"], buckets=_ATTEMPTS, registry=r,
        )  # fmt: skip
        self.algorithm_duration = Histogram(
            f"{prefix}_scheduling_algorithm_duration_seconds", "One turn of the engine.", buckets=_ATTEMPTS, registry=r
        )
        self.sli_duration = Histogram(
            f"{prefix}_pod_scheduling_sli_duration_seconds",
            "From a pod's creation to its bind.",
            buckets=_LIFE,
            registry=r,
        )
        self.longest_turn = Gauge(f"{prefix}_engine_longest_turn_seconds", "The longest turn so far.", registry=r)
        self.refused_facts = Counter(f"{prefix}_refused_facts", "Facts that the engine did not take.", registry=r)
        self.failed_decisions = Counter(f"{prefix}_failed_decisions", "Decisions that a plugin broke.", registry=r)
        self.preemption_attempts = Counter(f"{prefix}_preemption_attempts", "Evictions that were decided.", registry=r)
        self.preemption_victims = Histogram(
            f"{prefix}_preemption_victims", "Pods that one eviction sends away.", buckets=_VICTIMS, registry=r
        )
        self.queue_incoming = Counter(
            f"{prefix}_queue_incoming_pods", "Pods that came to a queue.", ["event", "queue"], registry=r
        )
        self.podgroup_attempts = Counter(
            f"{prefix}_podgroup_schedule_attempts", "Tries to place a gang, or more of it.", ["result"], registry=r
        )
        self.gang_timeouts = Counter(
            f"{prefix}_gang_wait_timeouts", "Gangs that waited too long for their minimum of members.", registry=r
        )
        self.broken_budgets = Counter(
            f"{prefix}_disruption_budgets_broken", "Evictions that a disruption budget forbade.", registry=r
        )
        self.lease_losses = Counter(
            f"{prefix}_lease_losses", "Times that the lease was lost, and waited for again.", registry=r
        )
        self.group_of: Callable[[str], str] = lambda uid: ""  # of a pod, by its uid
        self._longest_ns = 0

    def turn(self, turn: Turn) -> None:
        """Count one turn of the engine."""
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
        self._count_actions(turn)

    def incoming(self, event: str, queue: str, count: int = 1) -> None:
        """Count pods that came to a queue; events and queues are called as kube-scheduler calls them."""
        self.queue_incoming.labels(event, queue).inc(count)

    def attempts(self, result: str, profile: str) -> None:
        """Count one try."""
        self.schedule_attempts.labels(result, profile).inc()

    def bound(self, profile: str, attempt_s: float, life_s: float) -> None:
        """Count a pod that was bound."""
        self.schedule_attempts.labels("scheduled", profile).inc()
        self.attempt_duration.labels("scheduled", profile).observe(attempt_s)
        self.sli_duration.observe(max(0.0, life_s))

    def _count_actions(self, turn: Turn) -> None:
        groups: dict[tuple[str, str], None] = {}
        for action in turn.actions:
            if isinstance(action, Nominate):
                if action.host and action.victims:
                    self.preemption_attempts.inc()
                    self.preemption_victims.observe(len(action.victims))
            elif isinstance(action, Hold):
                self.incoming("ScheduleAttemptFailure", "unschedulable")
                groups[self.group_of(action.uid), "unschedulable"] = None
            elif isinstance(action, Bind):
                groups[self.group_of(action.uid), "scheduled"] = None
        for group, result in groups:
            if group:
                self.podgroup_attempts.labels(result).inc()
