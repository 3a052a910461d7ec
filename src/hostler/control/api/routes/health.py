"""Routes for probes, metrics and the API description."""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.endpoint import remote_of
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.description_page import page_of
from hostler.control.api.routes.metrics import metrics_text
from hostler.control.schemas import Health
from hostler.control.store.history import lease
from hostler.errors import HostlerError
from hostler.runtime.metrics import METRICS_TYPE

__all__ = ["ROUTES"]

ROUTES = Routes("service")
_HTML = "text/html"
_ASTRAY = "this replica cannot follow what is written to the database; the service's log says why"
_WENT_BACK = "the database lost changes that were committed; the service's log says what to do"


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
    return Response(await metrics_text(call.context), media_type=METRICS_TYPE)


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
