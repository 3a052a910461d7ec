"""The application: all routes, and what happens around each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Receive, Scope, Send

from hostler._version import __version__
from hostler.control.api import access, agents, health, hosts, keeping, operations, questions, tenancy, vms
from hostler.control.api.around import Around
from hostler.control.api.context import Context
from hostler.control.api.description import describe
from hostler.control.api.errors import MethodNotAllowedError, RouteNotFoundError
from hostler.control.api.routes import Route
from hostler.control.api.serving import Endpoint, failed
from hostler.errors import InputError

__all__ = ["ALL_ROUTES", "Context", "make_app"]

ALL_ROUTES: Sequence[Route] = [
    route
    for module in (vms, hosts, questions, operations, tenancy, keeping, access, agents, health)
    for route in module.ROUTES.items
]


class _App(FastAPI):
    """Goes straight to the endpoints of paths without parameters, of agents above all.

    Looking for a route through the framework's layers costs as much as answering a heartbeat.
    """

    direct: Mapping[str, ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["app"] = self  # as the framework does: the description is asked of it
        found = self.direct.get(scope["path"]) if scope["type"] == "http" else None
        await (found(scope, receive, send) if found is not None else super().__call__(scope, receive, send))


def make_app(context: Context) -> FastAPI:
    """Return the REST service of one replica. Pages may be mounted beside its routes."""
    app = _App(
        title="Hostler",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        middleware=[Middleware(Around, context=context)],
    )
    app.state.context = context
    by_path: dict[str, dict[str, Route]] = {}
    for route in ALL_ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    for path, routes in by_path.items():
        endpoint = Endpoint(context, routes)
        app.router.routes.append(Path(path, endpoint.serve, methods=list(routes)))
    app.direct = {
        path: Around(Endpoint(context, routes), context) for path, routes in by_path.items() if "{" not in path
    }
    description = describe(ALL_ROUTES)
    app.openapi = lambda: description  # type: ignore[method-assign]
    _answer_the_rest(app, context)
    return app


def _answer_the_rest(app: FastAPI, context: Context) -> None:
    """Let errors that the framework makes look like ours."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = failed(context, request, _ours(request, error))
        for name, value in (error.headers or {}).items():
            answer.headers[name] = value
        return answer

    async def broken(request: Request, error: Exception) -> Response:
        return failed(context, request, error)

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(Exception, broken)


def _ours(request: Request, error: HTTPException) -> InputError:
    if error.status_code == 405:
        return MethodNotAllowedError(f"{request.method} is not for this path", hint="the header Allow says what is")
    if error.status_code == 404:
        return RouteNotFoundError("there is nothing at this path", hint="/docs lists what there is")
    found = InputError(str(error.detail), hint="see /docs")
    found.status = error.status_code  # type: ignore[attr-defined]
    return found
