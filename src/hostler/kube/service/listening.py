"""How much of us a stranger may take: connections, time and bytes are limited before anybody is known by name.

The port is open to all who can reach it, and a request is checked only when its head is whole. So a head and a body
must come in time, a place that is needed is taken from whoever waits without a request, and what is no HTTP at all is
answered like every other bad request. Used by ``serving``.
"""

from __future__ import annotations

import asyncio
import ssl

import msgspec
from aiohttp import web

from hostler.kube.service.problems import Handler, RefusedError, problem

__all__ = ["Limits", "Listener", "mark_busy", "read_body"]

_HANDSHAKE_S = 10.0
_LINGER_S = 2.0  # for a body that nobody wants, so that the answer is still read
# Times the connections: what strangers can make us keep in memory. A token may have 16 KiB.
_HEADERS = 32
_HEADER_BYTES = 17 * 2**10


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one service gives away at most."""

    connections: int = 128
    head_s: float = 20.0  # until a request's head is whole, and between two requests
    body_s: float = 10.0


class _Connection(web.RequestHandler):
    """One connection; ``is_busy`` while a page is made for it."""

    __slots__ = ("is_busy",)

    def __init__(self, server: web.Server, limits: Limits) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.head_s,  # aiohttp counts it from the beginning of a connection too
            lingering_time=_LINGER_S,
            max_headers=_HEADERS,
            max_field_size=_HEADER_BYTES,
            access_log=None,  # type: ignore[arg-type]  # means none, as with the runner
        )
        self.is_busy = False

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is no request; a mistake of ours is logged, a stranger's is not."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        answer = problem(400, "the request is not HTTP as we take it", hint="its head is malformed or too large")
        answer.force_close()
        return answer


class Listener:
    """Takes connections for an application; made and closed in one event loop."""

    def __init__(self, server: web.Server, limits: Limits) -> None:
        self._server = server
        self._limits = limits

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> asyncio.Server:
        """Listen; OSError where the address cannot be had."""
        loop = asyncio.get_running_loop()
        timeout_s = _HANDSHAKE_S if tls is not None else None
        return await loop.create_server(self._take, host, port, ssl=tls, ssl_handshake_timeout=timeout_s)

    def _take(self) -> asyncio.Protocol:
        """Make room for a newcomer: the oldest that have no request under way give way."""
        held = [one for one in self._server.connections if one.transport is not None]
        excess = len(held) + 1 - self._limits.connections
        if excess > 0:
            waiting = [one for one in held if isinstance(one, _Connection) and not one.is_busy]
            if not waiting:
                return _NoRoom()
            for one in waiting[:excess]:
                one.force_close()
        return _Connection(self._server, self._limits)


class _NoRoom(asyncio.Protocol):
    """Ends a connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hang up."""
        transport.close()


@web.middleware
async def mark_busy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Keep a connection while a page is made for it."""
    connection = request.protocol
    if not isinstance(connection, _Connection):
        return await handler(request)
    connection.is_busy = True
    try:
        return await handler(request)
    finally:
        connection.is_busy = False


async def read_body(request: web.Request, timeout_s: float) -> bytes:
    """Read a body that must come in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await request.read()
    except TimeoutError:
        raise RefusedError(408, f"the body did not come within {timeout_s:g} s") from None
