"""The REST application: all routes, with the middleware around each request: request id, Host header, metrics."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hostler.control.access.listen_addresses import check_host
from hostler.control.api.description import describe
from hostler.control.api.requests.call import new_id
from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.endpoint import Endpoint, answer_error
from hostler.control.api.requests.errors import MethodNotAllowedError, RouteNotFoundError
from hostler.control.api.requests.request_decoder import check_once
from hostler.control.api.requests.route import Route
from hostler.control.api.routes import (
    access,
    agents,
    health,
    hosts,
    operations,
    projects,
    questions,
    quotas_and_reservations,
    vms,
)
from hostler.errors import HostlerError, InputError

__all__ = ["ALL_ROUTES", "RequestMiddleware", "ServiceContext", "make_app"]

_REQUEST_ID = "X-Request-Id"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Probes and scrapes go to each replica by its own name or address. Their responses need a key or are public, so
# a page that uses DNS rebinding learns nothing.
_BY_ANY_NAME = frozenset(("/livez", "/readyz", "/metrics"))
_ELSEWHERE = "other"  # a path that leads nowhere must not become a label
ALL_ROUTES: Sequence[Route] = [
    route
    for module in (vms, hosts, questions, operations, projects, quotas_and_reservations, access, agents, health)
    for route in module.ROUTES.items
]


class RequestMiddleware:
    """Middleware without a buffer, so that streams pass through."""

    def __init__(
        self, app: ASGIApp, context: ServiceContext, *, watch: Callable[[], float] = time.perf_counter
    ) -> None:
        self._app = app
        self._context = context
        self._meters = context.meters
        self._watch = watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(_REQUEST_ID, "")
        request_id = given if _ID.fullmatch(given) else new_id()
        scope["hostler_request_id"] = request_id
        begun, status = self._watch(), 500

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer = MutableHeaders(scope=message)
                answer[_REQUEST_ID] = request_id
                answer.setdefault("Cache-Control", "no-store")
                answer.setdefault("X-Content-Type-Options", "nosniff")
            await send(message)

        try:
            app = self._app
            try:
                if self._context.host_names and scope["path"] not in _BY_ANY_NAME:
                    check_host(", ".join(headers.getlist("host")), self._context.host_names)  # two are none of ours
                check_once(headers)
            except HostlerError as error:
                app = answer_error(self._context, Request(scope), error)
            await app(scope, receive, told)
        except asyncio.CancelledError:
            if not self._context.stopping.is_set():
                raise
            # Cut off after the shutdown time-out: log a line instead of the server's traceback.
            self._context.tell(f"request {request_id}: {scope['method']} {scope['path']!r} was cut off by the end")
        finally:
            route = getattr(scope.get("state", {}), "route", None) or scope.get("state", {}).get("route")
            path = route.path if route is not None else _ELSEWHERE
            self._meters.request(scope["method"], path, status, self._watch() - begun)


class _App(Starlette):
    """Dispatches paths without parameters directly to their endpoints, above all those of agents.

    The framework's search for a route costs as much as the answer to a heartbeat.
    """

    direct: Mapping[str, ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["app"] = self  # as the framework does: the description is asked of it
        found = self.direct.get(scope["path"]) if scope["type"] == "http" else None
        await (found(scope, receive, send) if found is not None else super().__call__(scope, receive, send))


@cache
def _description() -> dict[str, Any]:
    """Describe all routes, once for all services of a process."""
    return describe(ALL_ROUTES)


def make_app(context: ServiceContext) -> Starlette:
    """Return the REST service of one replica. Pages may be mounted beside its routes."""
    app = _App(middleware=[Middleware(RequestMiddleware, context=context)])
    app.state.context = context
    app.state.description = _description()
    by_path: dict[str, dict[str, Route]] = {}
    for route in ALL_ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    for path, routes in by_path.items():
        endpoint = Endpoint(context, routes)
        app.router.routes.append(Path(path, endpoint.serve, methods=list(routes)))
    app.direct = {
        path: RequestMiddleware(Endpoint(context, routes), context)
        for path, routes in by_path.items()
        if "{" not in path
    }
    _add_error_handlers(app, context)
    return app


def _add_error_handlers(app: Starlette, context: ServiceContext) -> None:
    """Make the framework's own errors look like those of the routes."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = answer_error(context, request, _as_input_error(request, error))
        for name, value in (error.headers or {}).items():
            answer.headers[name] = value
        return answer

    async def broken(request: Request, error: Exception) -> Response:
        return answer_error(context, request, error)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(Exception, broken)


def _as_input_error(request: Request, error: HTTPException) -> InputError:
    if error.status_code == 405:
        return MethodNotAllowedError(
            f"{request.method} is not allowed for this path", hint="the header Allow lists the methods"
        )
    if error.status_code == 404:
        return RouteNotFoundError("this path does not exist", hint="/docs lists all paths")
    found = InputError(str(error.detail), hint="see /docs")
    found.status = error.status_code  # type: ignore[attr-defined]
    return found
