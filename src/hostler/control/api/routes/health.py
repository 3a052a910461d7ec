"""Routes for probes, metrics and the API description.

Metrics are read at each scrape, in addition to what ``requests.meters`` counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import HTMLResponse, Response

from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.endpoint import remote_of
from hostler.control.api.requests.meters import METRICS
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.description_page import page_of
from hostler.control.schemas import Health
from hostler.control.services.vms.stalled_vms import count_hindered
from hostler.control.store import Connection
from hostler.control.store.history import lease, log
from hostler.control.store.rows import hosts, vms
from hostler.engine import Engine
from hostler.errors import HostlerError
from hostler.runtime.metrics import METRICS_TYPE

__all__ = ["ROUTES"]

ROUTES = Routes("service")
_HTML = "text/html"
_ASTRAY = "this replica cannot follow what is written to the database; the service's log says why"
_WENT_BACK = "the database lost changes that were committed; the service's log says what to do"
_NS = 1_000_000_000


@ROUTES.add("GET", "/livez", "Whether the process lives", answers={200: Health}, door="none")
async def livez(call: ApiCall) -> Reply:
    """Report that the process lives."""
    return Reply(200, Health(status="ok", is_leader=call.context.books.is_leader, seq=call.context.books.seq))


@ROUTES.add("GET", "/readyz", "Whether requests are answered", answers={200: Health, 503: Health}, door="none")
async def readyz(call: ApiCall) -> Reply:
    """Report whether requests are answered: the log is read, and the database answers and accepts changes.

    Anybody may call this, so the reasons are general. Details, such as the address of the database, go to the log.
    """
    books = call.context.books
    if call.context.database.history.went_back is not None:
        return _unready(call, _WENT_BACK)
    if books.trouble:
        return _unready(call, _ASTRAY)
    if not books.is_ready or call.context.stopping.is_set():
        return Reply(503, Health(status="starting", why="the log is not read yet, or the service is stopping"))
    try:
        found = await call.read(lease.read)
    except HostlerError as error:
        remote = remote_of(call.request)
        call.context.strangers.tell(f"not ready: {error.message}", remote)  # so many lines, however often they probe
        return _unready(call, "the database does not answer")
    if call.context.writes.trouble:
        return _unready(call, call.context.writes.trouble)
    leader = found.holder if found.is_held else ""
    return Reply(200, Health(status="ok", is_leader=books.is_leader, leader=leader, seq=books.seq))


def _unready(call: ApiCall, why: str) -> Reply:
    return Reply(503, Health(status="unavailable", why=why, seq=call.context.books.seq))


@ROUTES.add(
    "GET",
    "/metrics",
    "Numbers for Prometheus",
    answers={200: "text/plain"},
    permission="metrics.read",
)
async def metrics(call: ApiCall) -> Response:
    """Return all metrics as text."""
    call.principal.check("metrics.read")
    return Response(await _metrics_text(call.context), media_type=METRICS_TYPE)


@ROUTES.add("GET", "/openapi.json", "This description", answers={200: dict}, door="none")
async def openapi(call: ApiCall) -> Reply:
    """Return the description of all routes."""
    return Reply(200, call.request.app.state.description)


@ROUTES.add("GET", "/docs", "This description as a page", answers={200: _HTML}, door="none")
async def docs(call: ApiCall) -> Response:
    """Return the description as a page without external resources."""
    return HTMLResponse(
        page_of(call.request.app.state.description),
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )


class ReplicaNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a replica at one scrape."""

    vms: Mapping[str, int]
    hindered: Mapping[str, int]
    hosts: Mapping[str, int]
    head: int
    queues: Mapping[str, int]
    ages: tuple[float, ...]  # how long ago ready hosts were heard, in seconds
    unheard: int


async def _metrics_text(context: ServiceContext) -> bytes:
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
