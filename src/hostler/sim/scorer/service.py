"""A scoring service with a network: ``POST /score`` in both variants, ``GET /healthz``. Standard library only.

It trusts whoever can reach it, so it listens on the loopback address unless told otherwise.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import ClassVar

import msgspec

from hostler.errors import InputError, UnavailableError
from hostler.sim.scorer.network import Network
from hostler.sim.scorer.reading import BatchRequest, RequestReader

__all__ = ["MOST_BYTES", "ScoringService", "reply", "serve_until_told"]

MOST_BYTES = 64 << 20  # of a request; 1,213 nodes take about 1 MiB
_IDLE_S = 60.0  # after which a silent connection is closed


class ScoringService(ThreadingHTTPServer):
    """Answers until ``shutdown`` is called; one thread per connection."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, network: Network, host: str = "127.0.0.1", port: int = 5000, most_bytes: int = MOST_BYTES
    ) -> None:
        self.network = network
        self.reader = RequestReader(network.mix)
        self.most_bytes = most_bytes
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UnavailableError(f"cannot listen on {host}:{port}: {error}", hint="choose another --port") from error

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep quiet about clients that turned away, as they do when their time-out has passed."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def endpoint(self) -> str:
        """Return the address to ask."""
        host, port = self.server_address[:2]
        name = str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/score"


def reply(network: Network, reader: RequestReader, body: bytes) -> dict[str, object]:
    """Return the answer to one request."""
    request = reader.read(body)
    scores = network.scores(request.wish, request.hosts).tolist()
    if isinstance(request, BatchRequest):
        return {"scores": dict(zip(request.names, scores, strict=True))}
    return {"score": float(scores[0])}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout: ClassVar[float | None] = _IDLE_S
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together
    server: ScoringService

    def do_POST(self) -> None:
        """Score."""
        body = self._body()
        if body is None:
            return
        if self.path.partition("?")[0] != "/score":
            self._send(HTTPStatus.NOT_FOUND, {"error": f"there is no {self.path[:80]}; post to /score"})
            return
        try:
            answer = reply(self.server.network, self.server.reader, body)
        except InputError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": error.message})
        except Exception as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"})
        else:
            self._send(HTTPStatus.OK, answer)

    def do_GET(self) -> None:
        """Say that it is there."""
        if self.path == "/healthz":
            self._send(HTTPStatus.OK, {"model": self.server.network.name})
        elif self.path == "/score":
            self._send(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "post to /score"})
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "there is /score and /healthz"})

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: a run asks ten thousand times."""

    def _body(self) -> bytes | None:
        """Read the body, or refuse it; a refused one is not read, so the connection ends."""
        text = self.headers.get("Content-Length", "")
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the request needs a Content-Length")
            return None
        if int(text) > self.server.most_bytes:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {self.server.most_bytes:,} bytes")
            return None
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            self.close_connection = True
            return None
        return body

    def _refuse(self, status: HTTPStatus, error: str) -> None:
        self.close_connection = True
        self._send(status, {"error": error})

    def _send(self, status: HTTPStatus, answer: dict[str, object]) -> None:
        body = msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def serve_until_told(service: ScoringService, announce: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM, then put their handlers back; announce once both would be heeded."""

    def stop(number: int, frame: FrameType | None) -> None:
        # From another thread: shutdown waits for the loop, and the loop is what was interrupted here.
        threading.Thread(target=service.shutdown, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        announce()
        service.serve_forever(poll_interval=0.1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
