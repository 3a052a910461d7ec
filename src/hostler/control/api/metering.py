"""What is counted while the service runs: requests, refusals, how long things take, what came of placements."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from hostler.agent.messages import Tries

__all__ = ["PREFIX", "Meters"]

PREFIX = "hostler_control_"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_METHODS = frozenset(("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"))


class Meters:
    """Counters of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            f"{PREFIX}requests",
            "Requests by route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            f"{PREFIX}request_duration_seconds",
            "From the first byte of a request to the end of its answer.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._placements = Counter(
            f"{PREFIX}placements",
            "Answers to creates of VMs, by what came of them.",
            ["strategy", "outcome"],
            registry=self.registry,
        )
        self._refusals = Counter(
            f"{PREFIX}refusals",
            "Callers that were refused, by the door at which they stood and by code.",
            ["door", "code"],
            registry=self.registry,
        )
        self._placed = Histogram(
            f"{PREFIX}placement_duration_seconds",
            "From the request for a place to the placement in the log, as the replica sees it that decides.",
            buckets=_SECONDS,
            registry=self.registry,
        )

        self._tries = Counter(
            f"{PREFIX}agent_tries",
            "How often agents that report here tried to do what was ordered, by what came of it.",
            ["outcome"],
            registry=self.registry,
        )
        self.tries(Tries())  # so that each outcome is there before its first try

    def tries(self, tries: Tries) -> None:
        """Count what an agent tried."""
        for outcome in Tries.__struct_fields__:
            self._tries.labels(outcome).inc(getattr(tries, outcome))

    def placed(self, seconds: float) -> None:
        """Count that a VM got a place after so long."""
        self._placed.observe(seconds)

    def refusal(self, door: str, code: str) -> None:
        """Count an answer that refuses a caller: a key, an agent, or nobody whom we know."""
        self._refusals.labels(door, code).inc()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def placement(self, strategy: str, outcome: str) -> None:
        """Count what came of a create: accepted, placed, refused, or nobody decided."""
        self._placements.labels(strategy, outcome).inc()
