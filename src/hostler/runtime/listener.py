"""The HTTP listener on aiohttp, with limits on what clients may use before they are authenticated.

Everyone who can reach the port can connect, and a request is checked only when its head is complete. So a handshake, a
head and a body must arrive in time. If places run out, a client without a request loses its place. Anything that is not
HTTP is answered like other bad requests. Errors are ``application/problem+json`` (RFC 9457), with a reason that a
person can act on. Used by the pages of a scheduler, the extender and the scoring service.
Starlette on uvicorn, which serves the control plane, has the same limits in ``control/api/http_server``.

Invariant: a connection has its place from the moment it is accepted until its descriptor is closed. A process needs
descriptors for its own calls too.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

import msgspec
from aiohttp import web

from hostler.errors import HostlerError, InputError, UnavailableError, UnknownNameError

__all__ = [
    "Handler",
    "Listener",
    "ListenerLimits",
    "RequestRejectedError",
    "answer_errors",
    "as_json",
    "mark_busy",
    "problem",
    "read_body",
    "serve_application",
]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LINGER_S = 2.0  # for an unwanted body, so that the answer is still read; and for the other side's goodbye
_SHARE = 4  # of our descriptors, one in so many may be a stranger's
# Times the connections: what strangers can make us keep in memory. A token may have 16 KiB.
_HEADERS = 32
_HEADER_BYTES = 17 * 2**10


class RequestRejectedError(HostlerError):
    """A request that is rejected; ``status`` is the HTTP status."""

    code = "refused"

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


def problem(status: int, detail: str, *, code: str = "", hint: str = "") -> web.Response:
    """Return the answer to a rejected request; programs may rely on ``code``."""
    title, usual = _KINDS.get(status, ("Error", "error"))
    body = {"type": "about:blank", "title": title, "status": status, "code": code or usual, "detail": _clean(detail)}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return web.Response(
        body=msgspec.json.encode(body | ({"hint": hint} if hint else {})),
        status=status,
        content_type="application/problem+json",
        headers=headers,
    )


def as_json(data: object) -> web.Response:
    """Make an answer of plain data."""
    return web.Response(body=msgspec.json.encode(data), content_type="application/json")


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into problems; an unexpected error shows no details."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return problem(error.status, f"{request.method} {request.path}: {error.reason}")
    except RequestRejectedError as error:
        return problem(error.status, error.message, hint=error.hint)
    except HostlerError as error:
        return problem(_status_of(error), error.message, code=error.code, hint=error.hint)
    except TimeoutError:
        return problem(503, "the engine is busy: try again")


_KINDS = {  # status: title, code
    400: ("Bad request", "bad_request"),
    401: ("Not authenticated", "not_authenticated"),
    403: ("Not allowed", "not_allowed"),
    404: ("Not found", "not_found"),
    405: ("Method not allowed", "method_not_allowed"),
    408: ("Too slow", "too_slow"),
    409: ("Conflict", "conflict"),
    413: ("Too large", "too_large"),
    429: ("Too many requests", "too_many_requests"),
    503: ("Unavailable", "unavailable"),
}


def _clean(text: str) -> str:
    """Return text that can be written: bytes that are no UTF-8 come in as halves of characters."""
    return text.encode("utf-8", "replace").decode()


def _status_of(error: HostlerError) -> int:
    if isinstance(error, UnknownNameError):
        return 404
    if isinstance(error, InputError):
        return 400
    return 503 if isinstance(error, UnavailableError) else 500


class ListenerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one service."""

    connections: int = 128  # fewer where the process may open few files
    handshake_s: float = 5.0
    head_s: float = 20.0  # until a request's head is whole, and between two requests
    body_s: float = 10.0


class _Place:
    """What one connection takes, from accept to its end; the oldest is first in ``places``."""

    def __init__(self, places: dict[_Place, None]) -> None:
        self.connection: _Connection | None = None
        self.handshake: asyncio.Task[None] | None = None
        self._places = places
        places[self] = None

    @property
    def is_busy(self) -> bool:
        return self.connection is not None and self.connection.is_busy

    def leave(self) -> None:
        self._places.pop(self, None)

    def forget(self, taken: socket.socket) -> None:
        """Release everything after a handshake that led to no connection, or could not begin."""
        if self.connection is None:
            taken.close()
            self.leave()

    def end(self) -> None:
        """End the connection at once: a peer that is silent must not keep it open."""
        self.leave()
        if self.handshake is not None:
            self.handshake.cancel()
        if self.connection is not None:
            self.connection.end()


class _Connection(web.RequestHandler):
    """One connection; ``is_busy`` while a page is made for it."""

    __slots__ = ("_place", "_wire", "is_busy")

    def __init__(self, server: web.Server, limits: ListenerLimits, place: _Place) -> None:
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
        self._place = place
        self._wire: asyncio.Transport | None = None  # also while it is being closed, when ``transport`` is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._wire, self._place.connection = cast("asyncio.Transport", transport), self
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Release the place."""
        self._place.leave()
        super().connection_lost(exc)

    def end(self) -> None:
        """Close without TLS's goodbye, which the other side would have to answer."""
        if self._wire is not None:
            self._wire.abort()
        self.force_close()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is no request; log only our own mistakes."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        answer = problem(400, "the request is not HTTP as we take it", hint="its head is malformed or too large")
        answer.force_close()
        return answer


class Listener:
    """Takes connections for an application; made and closed in one event loop."""

    def __init__(self, server: web.Server, limits: ListenerLimits) -> None:
        self._server = server
        self._limits = limits
        self._most = min(limits.connections, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE))
        self._places: dict[_Place, None] = {}

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> asyncio.Server:
        """Listen; OSError if the address cannot be used."""
        return await asyncio.get_running_loop().create_server(lambda: _Arrival(self, tls), host, port)

    async def start_on(self, sock: socket.socket) -> asyncio.Server:
        """Listen on a socket that is bound."""
        return await asyncio.get_running_loop().create_server(lambda: _Arrival(self, None), sock=sock)

    def lead_to(self, server: web.Server) -> None:
        """Pass new connections to another application."""
        self._server = server

    def take(self, transport: asyncio.Transport, tls: ssl.SSLContext | None) -> None:
        """Admit a new connection, if there is room."""
        if not self._make_room():
            transport.abort()
            return
        place = _Place(self._places)
        if tls is None:
            connection = _Connection(self._server, self._limits, place)
            transport.set_protocol(connection)
            connection.connection_made(transport)
            return
        # A loop that listens with TLS hides connections until their handshake is done; so we take this one over.
        wire = transport.get_extra_info("socket")
        taken = socket.fromfd(wire.fileno(), wire.family, wire.type)
        transport.abort()
        place.handshake = asyncio.ensure_future(self._shake_hands(taken, tls, place))
        place.handshake.add_done_callback(lambda _: place.forget(taken))

    def _make_room(self) -> bool:
        """Close the oldest connections without a running request; False if every connection has one."""
        excess = len(self._places) + 1 - self._most
        if excess <= 0:
            return True
        waiting = [one for one in self._places if not one.is_busy]
        for one in waiting[:excess]:
            one.end()
        return bool(waiting)

    async def _shake_hands(self, taken: socket.socket, tls: ssl.SSLContext, place: _Place) -> None:
        with suppress(OSError):  # the client has gone, is silent, or speaks no TLS
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Connection(self._server, self._limits, place),
                taken,
                ssl=tls,
                ssl_handshake_timeout=self._limits.handshake_s,
                ssl_shutdown_timeout=_LINGER_S,
            )


class _Arrival(asyncio.Protocol):
    """A connection that was just accepted."""

    def __init__(self, listener: Listener, tls: ssl.SSLContext | None) -> None:
        self._listener = listener
        self._tls = tls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand it over before anything is read."""
        self._listener.take(cast("asyncio.Transport", transport), self._tls)


@asynccontextmanager
async def serve_application(
    app: web.Application,
    address: tuple[str, int] | socket.socket,
    limits: ListenerLimits,
    *,
    shutdown_s: float = 1.0,
) -> AsyncIterator[tuple[str, int]]:
    """Serve an application while the context is open; give the address that was taken.

    OSError if the address cannot be had. ``shutdown_s``: how long requests under way may take at the end.
    """
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=shutdown_s)
    await runner.setup()
    listening: asyncio.Server | None = None
    try:
        assert runner.server is not None
        listener = Listener(runner.server, limits)
        if isinstance(address, socket.socket):
            listening = await listener.start_on(address)
        else:
            listening = await listener.start(*address, None)
        yield listening.sockets[0].getsockname()[:2]
    finally:
        if listening is not None:
            listening.close()
        await runner.cleanup()


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
        raise RequestRejectedError(408, f"the body did not come within {timeout_s:g} s") from None
