"""Metrics that are counted while the service runs: requests, rejections, durations, results of placements."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from hostler.agent.messages import Tries
from hostler.runtime.metrics import MetricSpec, MetricTable

__all__ = ["METRICS", "Meters"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_METHODS = frozenset(("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"))


METRICS = MetricTable(
    "hostler_control_",
    # Counted where it happens.
    MetricSpec("counter", "requests", "Requests by route and status.", ("method", "route", "status")),
    MetricSpec(
        "histogram",
        "request_duration_seconds",
        "From the first byte of a request to the end of its answer.",
        ("method", "route"),
        _SECONDS,
    ),
    MetricSpec("counter", "placements", "Responses to requests that create a VM, by outcome.", ("strategy", "outcome")),
    MetricSpec(
        "counter",
        "refusals",
        "Rejected requests, by kind of caller and by code.",
        ("door", "code"),
    ),
    MetricSpec(
        "histogram",
        "placement_duration_seconds",
        "From the request for a place to the placement in the log, as seen by the leader.",
        (),
        _SECONDS,
    ),
    MetricSpec(
        "counter",
        "agent_tries",
        "Attempts of agents that report here to apply orders, by outcome.",
        ("outcome",),
    ),
    # Read at each scrape, by ``routes.health``.
    MetricSpec("gauge", "vms", "VMs by state.", ("state",)),
    MetricSpec(
        "gauge",
        "vms_hindered",
        "VMs that are not yet as ordered because of a trouble, by kind of trouble.",
        ("kind",),
    ),
    MetricSpec("gauge", "hosts", "Hosts by state.", ("state",)),
    MetricSpec("gauge", "queue_length", "Guests that wait for a decision, by queue.", ("queue",)),
    MetricSpec("gauge", "leader", "1 while this replica decides."),
    MetricSpec("gauge", "books_seq", "The last entry of the log that this replica has read."),
    MetricSpec("gauge", "books_lag", "Entries of the log that this replica has not read yet."),
    MetricSpec("counter", "books_steps", "Steps that this replica decided."),
    MetricSpec("counter", "books_rebuilds", "How often its engine was rebuilt from the database."),
    MetricSpec("counter", "books_refused", "Facts in the log that its engine rejected."),
    MetricSpec("gauge", "books_diverged", "1 while this replica cannot follow the log, so that it decides nothing."),
    MetricSpec("counter", "books_unusable_checkpoints", "Checkpoints that this replica could not start from."),
    MetricSpec("gauge", "database_waiting", "Writes that are queued."),
    MetricSpec(
        "gauge",
        "database_write_seconds_max",
        "The longest write in the last minute, unfinished ones included.",
    ),
    MetricSpec("gauge", "engine_seconds_max", "The longest wait for the engine's thread in the last minute."),
    MetricSpec("counter", "database_commits", "Transactions that were committed."),
    MetricSpec("counter", "database_failures", "Failed writes to the database, by cause.", ("cause",)),
    MetricSpec(
        "gauge",
        "agent_staleness_seconds_max",
        "The longest time since a ready host was heard.",
    ),
    MetricSpec("gauge", "agent_staleness_seconds_mean", "The mean time since ready hosts were heard."),
    MetricSpec("gauge", "agents_unheard", "Ready hosts that this replica has not heard."),
)


class Meters:
    """Counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = METRICS.counter("requests", self.registry)
        self._seconds = METRICS.histogram("request_duration_seconds", self.registry)
        self._placements = METRICS.counter("placements", self.registry)
        self._refusals = METRICS.counter("refusals", self.registry)
        self._placed = METRICS.histogram("placement_duration_seconds", self.registry)
        self._tries = METRICS.counter("agent_tries", self.registry)
        self.tries(Tries())  # so that each outcome is there before its first try

    def tries(self, tries: Tries) -> None:
        """Count an agent's attempts."""
        for outcome in Tries.__struct_fields__:
            self._tries.labels(outcome).inc(getattr(tries, outcome))

    def placed(self, seconds: float) -> None:
        """Record how long the placement of a VM took."""
        self._placed.observe(seconds)

    def refusal(self, door: str, code: str) -> None:
        """Count a rejected request of a key, an agent, or an unauthenticated caller."""
        self._refusals.labels(door, code).inc()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def placement(self, strategy: str, outcome: str) -> None:
        """Count the result of a create: accepted, placed, rejected, or undecided."""
        self._placements.labels(strategy, outcome).inc()
