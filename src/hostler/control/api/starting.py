"""What is answered before there is anything to ask: that the process lives, and why it is not ready yet.

The place to listen is taken first of all, and a first start compiles for minutes: whoever probes it meanwhile must not
take it for dead, and whoever asks something must not wait for so long. Used by ``serving``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hostler.control.api.errors import StartingError
from hostler.control.api.problems import problem
from hostler.control.api.shapes import Health

__all__ = ["Porch", "tell_while_closed"]

_FIRST_S = 10.0


class Porch:
    """Answers by itself until the application is there, and passes on all requests from then on.

    ``why`` says what is being waited for.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        self._app: ASGIApp | None = None

    @property
    def is_open(self) -> bool:
        """Say whether the application answers."""
        return self._app is not None

    def open(self, app: ASGIApp) -> None:
        """Let requests in."""
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


async def tell_while_closed(porch: Porch, tell: Callable[[str], None], *, first_s: float = _FIRST_S) -> None:
    """Tell that a start takes long, and why, more and more seldom: whoever reads the log takes it for hung else."""
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
