"""Whether the service lives and is ready, its numbers, and its description."""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

from hostler.control.api.calls import Call
from hostler.control.api.metrics import METRICS_TYPE, metrics_text
from hostler.control.api.page import page_of
from hostler.control.api.routes import Reply, Routes
from hostler.control.api.serving import remote_of
from hostler.control.api.shapes import Health
from hostler.control.store import lease
from hostler.errors import HostlerError

__all__ = ["ROUTES"]

ROUTES = Routes("service")
_HTML = "text/html"
_ASTRAY = "this replica cannot follow what is written to the database; the service's log says why"
_WENT_BACK = "the database lost changes that were committed; the service's log says what to do"


@ROUTES.add("GET", "/livez", "Whether the process lives", answers={200: Health}, door="none")
async def livez(call: Call) -> Reply:
    """Say that the process lives."""
    return Reply(200, Health(status="ok", is_leader=call.context.books.is_leader, seq=call.context.books.seq))


@ROUTES.add("GET", "/readyz", "Whether requests are answered", answers={200: Health, 503: Health}, door="none")
async def readyz(call: Call) -> Reply:
    """Say whether requests are answered: the books are read, and the database answers and takes changes.

    Anybody may ask, so the answer is in plain words; what errors say, such as where the database is, goes to the log.
    """
    books = call.context.books
    if call.context.database.history.went_back is not None:
        return _unready(call, _WENT_BACK)
    if books.trouble:
        return _unready(call, _ASTRAY)
    if not books.is_ready or call.context.stopping.is_set():
        return Reply(503, Health(status="starting", why="the books are not read yet, or the service ends"))
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


def _unready(call: Call, why: str) -> Reply:
    return Reply(503, Health(status="unavailable", why=why, seq=call.context.books.seq))


@ROUTES.add(
    "GET",
    "/metrics",
    "Numbers for Prometheus",
    answers={200: "text/plain"},
    permission="metrics.read",
)
async def metrics(call: Call) -> Response:
    """Return all numbers as text."""
    call.principal.check("metrics.read")
    return Response(await metrics_text(call.context), media_type=METRICS_TYPE)


@ROUTES.add("GET", "/openapi.json", "This description", answers={200: dict}, door="none")
async def openapi(call: Call) -> Reply:
    """Return the description of all routes."""
    return Reply(200, call.request.app.openapi())


@ROUTES.add("GET", "/docs", "This description as a page", answers={200: _HTML}, door="none")
async def docs(call: Call) -> Response:
    """Return the description as a page that needs nothing from elsewhere."""
    return HTMLResponse(
        page_of(call.request.app.openapi()),
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )
