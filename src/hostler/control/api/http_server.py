"""The HTTP server: listening socket, certificates, and uvicorn with timeouts of connections.

The timeouts are for clients that send no request, half a request, or do not read the response. The server by itself
waits for them forever. Each costs a file descriptor and the bytes that it sent, so a few thousand would lock everybody
else out. Timeouts for bodies belong to the code that reads them. Bytes that are not HTTP get an error response like any
other.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hostler.control.access.listen_addresses import Address
from hostler.control.access.secrets import redact
from hostler.control.api.requests.errors import HeadTooLargeError, MalformedRequestError
from hostler.control.api.requests.problems import problem
from hostler.control.api.requests.rejections import RemoteLog
from hostler.errors import HostlerError, InputError, UnavailableError

__all__ = ["Server", "Tls", "bind", "check_files", "make_server", "timed_protocol", "url_of"]

MOST_HEAD = 64 * 1024  # bytes
STALL_S = 60.0
_BASE: Any = HttpToolsProtocol
_BETWEEN = 4  # bytes around a header: a colon, a space, the end of its line
_NO_REQUEST = "not an HTTP request"
_TURNS = 4  # of the event loop, from accept() over the transport to a connection that is made, and one more
_DRAIN_S = 5  # for requests that are under way when the service ends


class _TimedConnection(_BASE):  # type: ignore[misc]
    """Closes the connection unless the head of a request arrives in time. Responses may take any time."""

    head_s: float
    stall_s: float
    strangers: RemoteLog
    told: logging.Logger

    _ending: asyncio.TimerHandle | None = None
    _stalling: asyncio.TimerHandle | None = None
    _unread = 0  # bytes since the last whole head or the last bytes of a body
    _head = 0  # bytes of a head, however many came with them
    _is_in_head = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer for the first head."""
        self.logger = self.told
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Start the timer for the rest, if only a part of a head has arrived."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MOST_HEAD:
            self._refuse(_too_large())
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()
        elif self._ending is None:
            self._wait()

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        self._head, self._is_in_head = 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the URL as a part of the head."""
        self._head += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header. Trailers after a body are dropped: the parser reports them as headers, unchecked."""
        if self._is_in_head:
            self._head += len(name) + len(value) + _BETWEEN
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Reset the counters: the head is complete. It may still be too large if it came at once."""
        self._unread, self._is_in_head = 0, False
        if self._head > MOST_HEAD:
            raise _too_large()  # ends the parser, which calls for a refusal
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Reset the counter: the bytes belong to the body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Reset the counter: the next bytes belong to another request."""
        self._unread = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Reject bytes that are not a request; ``msg`` is the server's message."""
        if self._head > MOST_HEAD:
            self._refuse(_too_large())
            return
        remote = self.client[0] if self.client is not None else "an unknown address"
        self.strangers.tell(f"not an HTTP request from {remote}", remote)
        self._refuse(MalformedRequestError(_NO_REQUEST, hint="use HTTP/1.1, with TLS if the service has it"))

    def pause_writing(self) -> None:
        """Start the timer for a client that does not read."""
        super().pause_writing()
        self._stall()

    def resume_writing(self) -> None:
        """Stop the timer: the client has read."""
        self._stall_no_more()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Start the timer for a client that does not read the last response."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._stall()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, even if the last response was not read."""
        super().timeout_keep_alive_handler()
        self._stall()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._wait_no_more()
        self._stall_no_more()
        super().connection_lost(exc)

    def _refuse(self, error: HostlerError) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()  # words of ours would stand in the middle of an answer
            return
        self.transport.write(_answer(error))
        self.transport.close()
        self._stall()

    def _wait(self) -> None:
        self._ending = self.loop.call_later(self.head_s, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _stall(self) -> None:
        if self._stalling is None:
            self._stalling = self.loop.call_later(self.stall_s, self.transport.abort)

    def _stall_no_more(self) -> None:
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None


def timed_protocol(head_s: float, strangers: RemoteLog, *, stall_s: float = STALL_S) -> type[asyncio.Protocol]:
    """Return the server's protocol with timeouts for the head of a request and for clients that do not read."""
    told = _logger_of(lambda line: strangers.tell(line, ""))
    how = {"head_s": head_s, "stall_s": stall_s, "strangers": strangers, "told": told}
    return type("Patient", (_TimedConnection,), how)


def _too_large() -> HeadTooLargeError:
    return HeadTooLargeError(f"the head is larger than {MOST_HEAD} bytes", hint="send a smaller head")


def _answer(error: HostlerError) -> bytes:
    """Return an error as the bytes of a response: there is no request that an application could answer."""
    told = problem(error, path="", request_id="")
    status = HTTPStatus(told.status_code)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in told.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + bytes(told.body)


class _LogHandler(logging.Handler):
    """Writes the server's log records as lines of this service."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(redact(self.format(record)))


def _logger_of(tell: Callable[[str], None]) -> logging.Logger:
    """Return a logger for internal errors only. Errors of clients are logged elsewhere, or not at all."""
    logger = logging.Logger("connections", level=logging.ERROR)
    logger.addHandler(_LogHandler(tell))
    return logger


class Tls(msgspec.Struct, frozen=True):
    """A certificate and its key."""

    certificate: Path
    key: Path


class Server(uvicorn.Server):
    """Uvicorn without its signal handlers. No connection outlives the server."""

    def install_signal_handlers(self) -> None:
        """Install none."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Capture none."""
        return nullcontext()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let requests finish, and close the remaining connections.

        A connection that was just accepted gets its transport a few turns of the event loop later. uvicorn closes only
        connections that have one: it would wait for this one in vain and leak its socket. asyncio also drops the socket
        of a connection, unclosed, if the server is closed between accept() and the transport. So the loop stops
        accepting first, and the server is closed when every accepted connection has its transport.
        """
        loop = asyncio.get_running_loop()
        for server in self.servers:
            if isinstance(loop, asyncio.SelectorEventLoop):
                for listener in server.sockets:
                    loop.remove_reader(listener)
            else:  # uvloop closes what it accepted itself
                server.close()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # transports close their sockets in the next turn


def make_server(app: ASGIApp, tls: Tls | None, head_s: float, strangers: RemoteLog) -> Server:
    """Return the server of an application, with a timeout for the head of a request."""
    secure: dict[str, object] = {}
    if tls is not None:
        secure = {
            "ssl_certfile": str(tls.certificate),
            "ssl_keyfile": str(tls.key),
            "ssl_version": ssl.PROTOCOL_TLS_SERVER,
        }
    config = uvicorn.Config(
        app,
        http=timed_protocol(head_s, strangers),
        ws="none",
        loop="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_DRAIN_S,
        timeout_keep_alive=75,
        **secure,  # type: ignore[arg-type]
    )
    return Server(config)


def bind(address: Address) -> socket.socket:
    """Bind the listening socket before anything else, so that a second start fails at once."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address.host, address.port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        hint = "another process listens there: name another address with --listen"
        raise UnavailableError(
            f"cannot listen on {address.host}:{address.port}: {error.strerror}", hint=hint
        ) from error
    return sock


def url_of(address: Address, sock: socket.socket, *, is_secure: bool) -> str:
    """Return the URL for clients; a port of 0 has become a real port by now."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'https' if is_secure else 'http'}://{host}:{sock.getsockname()[1]}"


def check_files(tls: Tls | None) -> None:
    """Reject a certificate or key that cannot be read."""
    for path in (tls.certificate, tls.key) if tls is not None else ():
        if not path.is_file():
            raise InputError(f"{path}: there is no such file", hint="name the certificate and its key, both as PEM")
