"""Responses before the application is ready: the process lives, and why it is not ready yet.

The socket listens from the beginning, and a first start compiles for minutes. Probes must not take the process for
dead meanwhile, and requests must fail at once. Used by ``service``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hostler.control.api.requests.errors import StartingError
from hostler.control.api.requests.problems import problem
from hostler.control.schemas import Health

__all__ = ["StartupApp", "log_slow_start"]

_FIRST_S = 10.0


class StartupApp:
    """Answers by itself until the application is open, and passes on all requests from then on.

    ``why`` is the reason that /readyz shows.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        self._app: ASGIApp | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the application answers."""
        return self._app is not None

    def open(self, app: ASGIApp) -> None:
        """Open the application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        app = self._app or self._answer(scope["path"])
        await app(scope, receive, send)

    def _answer(self, path: str) -> Response:
        if path == "/livez":
            return _health(200, Health(status="ok"))
        if path == "/readyz":
            return _health(503, Health(status="starting", why=self.why))
        error = StartingError(f"the service starts: {self.why}", hint="try again in a moment; /readyz says when")
        return problem(error, path=path, request_id="")


async def log_slow_start(porch: StartupApp, tell: Callable[[str], None], *, first_s: float = _FIRST_S) -> None:
    """Log that the start takes long, and why, in growing intervals, so that it does not look hung."""
    wait_s = first_s
    while True:
        await asyncio.sleep(wait_s)
        if porch.is_open:
            return
        tell(f"not ready yet: {porch.why}")
        wait_s *= 2


def _health(status: int, body: Health) -> Response:
    return Response(
        msgspec.json.encode(body),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
