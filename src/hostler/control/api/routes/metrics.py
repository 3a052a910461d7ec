"""Metrics that are read at each scrape, in addition to what ``requests.meters`` counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.meters import METRICS
from hostler.control.services.vms.stalled_vms import count_hindered
from hostler.control.store import Connection
from hostler.control.store.history import log
from hostler.control.store.rows import hosts, vms
from hostler.engine import Engine

__all__ = ["metrics_text"]

_NS = 1_000_000_000


class ReplicaNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a replica at one scrape."""

    vms: Mapping[str, int]
    hindered: Mapping[str, int]
    hosts: Mapping[str, int]
    head: int
    queues: Mapping[str, int]
    ages: tuple[float, ...]  # how long ago ready hosts were heard, in seconds
    unheard: int


async def metrics_text(context: ServiceContext) -> bytes:
    """Return all metrics as text."""
    registry = CollectorRegistry()
    registry.register(_SnapshotCollector(context, await _read_numbers(context)))
    return generate_latest(context.meters.registry) + generate_latest(registry)


async def _read_numbers(context: ServiceContext) -> ReplicaNumbers:
    def work(connection: Connection) -> tuple[dict[str, int], dict[str, int], list[hosts.HostCredentialRow], int]:
        found = vms.count_by_state(connection), count_hindered(connection)
        return *found, hosts.list_credentials(connection), log.head(connection)

    by_state, hindered, rows, head = await context.database.read(work)
    states: dict[str, int] = {}
    for row in rows:
        states[row.state or "joined"] = states.get(row.state or "joined", 0) + 1
    steady = context.fleet.steady()
    heard = [context.fleet.presence.heard_at(row.id) for row in rows if row.state == "ready"]
    queues, _ = await context.books.ask(_queues)
    return ReplicaNumbers(
        vms=by_state,
        hindered=hindered,
        hosts=states,
        head=head,
        queues=queues,
        ages=tuple((steady - at) / _NS for at in heard if at is not None),
        unheard=sum(at is None for at in heard),
    )


def _queues(engine: Engine) -> dict[str, int]:
    return engine.view.queue_counts()


class _SnapshotCollector(Collector):
    """One scrape as a Prometheus collector."""

    def __init__(self, context: ServiceContext, numbers: ReplicaNumbers) -> None:
        self._context = context
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        """Yield every metric that is read, not counted."""
        numbers, books, database = self._numbers, self._context.books, self._context.database
        yield METRICS.by("vms", dict(sorted(numbers.vms.items())))
        yield METRICS.by("vms_hindered", dict(sorted(numbers.hindered.items())))
        yield METRICS.by("hosts", dict(sorted(numbers.hosts.items())))
        yield METRICS.by("queue_length", dict(sorted(numbers.queues.items())))
        yield METRICS.one("leader", int(books.is_leader))
        yield METRICS.one("books_seq", books.seq)
        yield METRICS.one("books_lag", max(numbers.head - books.seq, 0))
        yield METRICS.one("books_steps", books.steps)
        yield METRICS.one("books_rebuilds", books.rebuilds)
        yield METRICS.one("books_refused", books.refused)
        yield METRICS.one("books_diverged", int(bool(books.trouble)))
        yield METRICS.one("books_unusable_checkpoints", books.unusable_checkpoints)
        yield METRICS.one("database_waiting", database.waiting)
        yield METRICS.one("database_write_seconds_max", self._context.writes.longest_s())
        yield METRICS.one("engine_seconds_max", books.longest_s)
        yield METRICS.one("database_commits", database.commits)
        yield METRICS.by("database_failures", dict(sorted(database.failures.items())))
        ages = numbers.ages
        yield METRICS.one("agent_staleness_seconds_max", max(ages, default=0.0))
        yield METRICS.one("agent_staleness_seconds_mean", sum(ages) / len(ages) if ages else 0.0)
        yield METRICS.one("agents_unheard", numbers.unheard)
