"""A scoring service with a network: ``POST /score`` in both variants, ``GET /healthz``.

It has no authentication, so it listens on the loopback address by default. Its connections have the
limits of ``runtime.listener``; scores are computed in threads, so that a large request does not hold up the others.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from types import FrameType
from typing import Self

import msgspec
from aiohttp import web

from hostler.errors import InputError, UnavailableError
from hostler.runtime.listener import (
    Handler,
    ListenerLimits,
    RequestRejectedError,
    mark_busy,
    read_body,
    serve_application,
)
from hostler.sim.scorer.network import ScorerNetwork
from hostler.sim.scorer.requests import BatchRequest, RequestReader

__all__ = ["MOST_BYTES", "ScoringService", "answer_request", "serve_until_signal"]

MOST_BYTES = 64 << 20  # of a request; 1,213 nodes take about 1 MiB
_BACKLOG = 64  # connections that wait to be accepted
_LIMITS = ListenerLimits(head_s=60.0, body_s=60.0)


class ScoringService:
    """Answers until ``shutdown`` is called; its address is taken when it is made."""

    def __init__(
        self, network: ScorerNetwork, host: str = "127.0.0.1", port: int = 5000, most_bytes: int = MOST_BYTES
    ) -> None:
        self._network = network
        self._reader = RequestReader(network.mix)
        self._most_bytes = most_bytes
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._sock = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            raise UnavailableError(f"cannot listen on {host}:{port}: {error}", hint="choose another --port") from error
        self.server_port: int = self._sock.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._is_told = threading.Event()

    def __enter__(self) -> Self:
        """Give the service."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Give the address back."""
        self.server_close()

    @property
    def endpoint(self) -> str:
        """Return the address to ask."""
        host = self._sock.getsockname()[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/score"

    def serve_forever(self) -> None:
        """Serve until ``shutdown`` is called, also when it was called before."""
        asyncio.run(self._serve())

    def shutdown(self) -> None:
        """Let ``serve_forever`` return; from any thread."""
        self._is_told.set()
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(self._stop.set)

    def server_close(self) -> None:
        """Give the address back."""
        self._sock.close()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._is_told.is_set():
            return
        async with serve_application(self._application(), self._sock, _LIMITS):
            await self._stop.wait()

    def _application(self) -> web.Application:
        app = web.Application(client_max_size=self._most_bytes, middlewares=[mark_busy, _answer_errors])
        app.router.add_post("/score", self._score)
        app.router.add_get("/healthz", self._tell_health)
        return app

    async def _score(self, request: web.Request) -> web.Response:
        length = request.content_length
        if length is None:
            raise RequestRejectedError(HTTPStatus.LENGTH_REQUIRED, "the request needs a Content-Length")
        if length > self._most_bytes:
            raise RequestRejectedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {self._most_bytes:,} bytes")
        body = await read_body(request, _LIMITS.body_s)
        return _answer(HTTPStatus.OK, await asyncio.to_thread(answer_request, self._network, self._reader, body))

    async def _tell_health(self, request: web.Request) -> web.Response:
        return _answer(HTTPStatus.OK, {"model": self._network.name})


def answer_request(network: ScorerNetwork, reader: RequestReader, body: bytes) -> dict[str, object]:
    """Return the answer to one request."""
    request = reader.read(body)
    scores = network.scores(request.wish, request.hosts).tolist()
    if isinstance(request, BatchRequest):
        return {"scores": dict(zip(request.names, scores, strict=True))}
    return {"score": float(scores[0])}


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed:
        return _answer(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "post to /score, get /healthz"})
    except web.HTTPNotFound:
        return _answer(HTTPStatus.NOT_FOUND, {"error": f"there is no {request.path[:80]}, but /score and /healthz"})
    except RequestRejectedError as error:  # the body was not read, so the connection ends
        answer = _answer(error.status, {"error": error.message})
        answer.force_close()
        return answer
    except InputError as error:
        return _answer(HTTPStatus.BAD_REQUEST, {"error": error.message})
    except Exception as error:
        return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"})


def _answer(status: int, data: dict[str, object]) -> web.Response:
    return web.Response(body=msgspec.json.encode(data), status=status, content_type="application/json")


def serve_until_signal(service: ScoringService, announce: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM, then put their handlers back; announce once both would be heeded."""

    def stop(number: int, frame: FrameType | None) -> None:
        # From another thread: what was interrupted here may hold the loop's own locks.
        threading.Thread(target=service.shutdown, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        announce()
        service.serve_forever()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
