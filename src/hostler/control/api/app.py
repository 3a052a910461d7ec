"""The REST application: all routes, with the middleware around each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Receive, Scope, Send

from hostler.control.api.description import describe
from hostler.control.api.middleware import RequestMiddleware
from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.endpoint import Endpoint, answer_error
from hostler.control.api.requests.errors import MethodNotAllowedError, RouteNotFoundError
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
from hostler.errors import InputError

__all__ = ["ALL_ROUTES", "ServiceContext", "make_app"]

ALL_ROUTES: Sequence[Route] = [
    route
    for module in (vms, hosts, questions, operations, projects, quotas_and_reservations, access, agents, health)
    for route in module.ROUTES.items
]


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
