"""Middleware around every request of REST and pages: request id, Host header, metrics."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hostler.control.access.listen_addresses import check_host
from hostler.control.api.requests.call import new_id
from hostler.control.api.requests.context import ServiceContext
from hostler.control.api.requests.endpoint import answer_error
from hostler.control.api.requests.request_decoder import check_once
from hostler.errors import HostlerError

__all__ = ["REQUEST_ID", "RequestMiddleware"]

REQUEST_ID = "X-Request-Id"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Probes and scrapes go to each replica by its own name or address. Their responses need a key or are public, so
# a page that uses DNS rebinding learns nothing.
_BY_ANY_NAME = frozenset(("/livez", "/readyz", "/metrics"))
_ELSEWHERE = "other"  # a path that leads nowhere must not become a label


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
        given = headers.get(REQUEST_ID, "")
        request_id = given if _ID.fullmatch(given) else new_id()
        scope["hostler_request_id"] = request_id
        begun, status = self._watch(), 500

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer = MutableHeaders(scope=message)
                answer[REQUEST_ID] = request_id
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
