"""What is, as metrics: read when somebody asks, beside what ``metering`` counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hostler.control.api.context import Context
from hostler.control.api.metering import PREFIX
from hostler.control.services.hindered import count_hindered
from hostler.control.store import Connection, hosts, log, vms
from hostler.engine import Engine

__all__ = ["METRICS_TYPE", "metrics_text"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NS = 1_000_000_000


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a replica."""

    vms: Mapping[str, int]
    hindered: Mapping[str, int]
    hosts: Mapping[str, int]
    head: int
    queues: Mapping[str, int]
    ages: tuple[float, ...]  # how long ago ready hosts were heard, in seconds
    unheard: int


async def metrics_text(context: Context) -> bytes:
    """Return all metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Now(context, await _look(context)))
    return generate_latest(context.meters.registry) + generate_latest(registry)


async def _look(context: Context) -> Numbers:
    def work(connection: Connection) -> tuple[dict[str, int], dict[str, int], list[hosts.RollRow], int]:
        found = vms.count_by_state(connection), count_hindered(connection)
        return *found, hosts.roll(connection), log.head(connection)

    by_state, hindered, rows, head = await context.database.read(work)
    states: dict[str, int] = {}
    for row in rows:
        states[row.state or "joined"] = states.get(row.state or "joined", 0) + 1
    steady = context.fleet.steady()
    heard = [context.fleet.presence.heard_at(row.id) for row in rows if row.state == "ready"]
    queues, _ = await context.books.ask(_queues)
    return Numbers(
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


class _Now(Collector):
    """One look, as Prometheus wants it."""

    def __init__(self, context: Context, numbers: Numbers) -> None:
        self._context = context
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        """Yield everything that is read, not counted."""
        numbers, books, database = self._numbers, self._context.books, self._context.database
        yield _by("vms", "VMs by state.", "state", numbers.vms)
        text = "VMs that are not yet as ordered because something is in the way, by kind of trouble."
        yield _by("vms_hindered", text, "kind", numbers.hindered)
        yield _by("hosts", "Hosts by state.", "state", numbers.hosts)
        yield _by("queue_length", "What waits for a decision, by queue.", "queue", numbers.queues)
        yield _one("leader", "1 while this replica decides.", int(books.is_leader))
        yield _one("books_seq", "The last entry of the log that this replica has read.", books.seq)
        yield _one("books_lag", "Entries of the log that it has not read yet.", max(numbers.head - books.seq, 0))
        yield _count("books_steps", "Steps that it decided.", books.steps)
        yield _count("books_rebuilds", "How often its engine was made anew from the database.", books.rebuilds)
        yield _count("books_refused", "Facts in the log that its engine did not take.", books.refused)
        text = "1 while this replica cannot follow the log, so that it decides nothing."
        yield _one("books_diverged", text, int(bool(books.trouble)))
        text = "Checkpoints that it could not begin with."
        yield _count("books_unusable_checkpoints", text, books.unusable_checkpoints)
        yield _one("database_waiting", "Writes that are queued.", database.waiting)
        text = "How long a write took at worst in the last minute, one that has not ended included."
        yield _one("database_write_seconds_max", text, self._context.writes.longest_s())
        text = "How long the engine's thread kept somebody waiting at worst in the last minute."
        yield _one("engine_seconds_max", text, books.longest_s)
        yield _count("database_commits", "Transactions that were committed.", database.commits)
        yield _counts("database_failures", "Writes that the database failed, by cause.", "cause", database.failures)
        ages = numbers.ages
        text = "How long ago the ready host was heard that was not heard for the longest time."
        yield _one("agent_staleness_seconds_max", text, max(ages, default=0.0))
        text = "How long ago ready hosts were heard, on average."
        yield _one("agent_staleness_seconds_mean", text, sum(ages) / len(ages) if ages else 0.0)
        yield _one("agents_unheard", "Ready hosts that this replica knows nothing of.", numbers.unheard)


def _by(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}{name}", text, labels=[label])
    for key in sorted(values):
        family.add_metric([key], values[key])
    return family


def _counts(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}{name}", text, labels=[label])
    for key in sorted(values):
        family.add_metric([key], values[key])
    return family


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", text, value=value)


def _count(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(f"{PREFIX}{name}", text, value=value)
