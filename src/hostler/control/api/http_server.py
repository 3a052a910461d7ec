"""The HTTP server: listening socket, certificates, and uvicorn."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
import uvicorn
from starlette.types import ASGIApp

from hostler.control.access.listen_addresses import Address
from hostler.control.api.connections import timed_protocol
from hostler.control.api.requests.remote_log import RemoteLog
from hostler.errors import InputError, UnavailableError

__all__ = ["Server", "Tls", "bind", "check_files", "make_server", "url_of"]

_TURNS = 4  # of the event loop, from accept() over the transport to a connection that is made, and one more
_DRAIN_S = 5  # for requests that are under way when the service ends


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
