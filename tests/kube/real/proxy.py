"""A proxy in front of a real API server that plays faults of networks and overloaded servers.

It terminates TLS with the server's own certificate, so that clients see no difference, inspects each call, and plays
the first fault that matches it. Its loop runs in a thread of its own; tests plan faults from theirs and see what
passed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp
from aiohttp import web

from hostler.kube.local import LocalCluster
from tests.wait import GIVE_UP_S

_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}

Kind = Literal["refuse", "stall", "swallow", "cut", "mute", "delay", "hold"]


@dataclass
class Fault:
    """A fault for matching calls: the first ``skip`` pass, the next ``times`` are affected, the others pass again.

    refuse: answered with ``status``, and ``body`` if there is one, and not forwarded. stall: accepted and never
    answered nor forwarded. swallow: executed by the server, and the connection ends instead of the response. cut: the
    response ends after ``size`` bytes. mute: only the headers come, and the connection stays open. delay: forwarded
    after ``seconds``. hold: forwarded once the test has opened the ``gate``.
    """

    kind: Kind
    wants: Callable[[str, str], bool]
    times: int = 1_000_000
    skip: int = 0
    status: int = 503
    body: dict[str, Any] | None = None
    retry_after: int = 0
    size: int = 0
    seconds: float = 0.0
    done: int = 0
    gate: threading.Event = field(default_factory=threading.Event)

    def takes(self, method: str, path: str) -> bool:
        """Return whether this call is affected, and count it."""
        if not self.wants(method, path) or self.done - self.skip >= self.times:
            return False
        self.done += 1
        return self.done > self.skip


def binding(method: str, path: str) -> bool:
    """Return whether a call binds a pod."""
    return method == "POST" and "/binding" in path


def watching(plural: str) -> Callable[[str, str], bool]:
    """Return what wants the watches on a collection."""
    return lambda method, path: method == "GET" and f"/{plural}?" in path and "watch=1" in path


@dataclass
class Sent:
    """Binds that arrived: the target nodes of each pod, by uid, in order."""

    targets: dict[str, list[str]] = field(default_factory=dict)

    def add(self, body: bytes) -> None:
        """Record the body of a bind."""
        content = json.loads(body)
        self.targets.setdefault(content["metadata"]["uid"], []).append(content["target"]["name"])


class Proxy:
    """Stands in front of the API server of a cluster during its ``with`` block."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.faults: list[Fault] = []
        self.binds = Sent()
        # Bound for as long as we are there, and never listened on: while we take no connections nobody gets our port.
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.port: int = self._held.getsockname()[1]
        self._cluster = cluster
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._wait(self._open())
        return self

    def __exit__(self, *ending: object) -> None:
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(GIVE_UP_S)
        self._loop.close()
        self._held.close()

    def plan(self, fault: Fault) -> Fault:
        """Play a fault from now on."""
        self.faults.append(fault)
        return fault

    def part(self) -> None:
        """Cut every connection and accept no new one."""
        self._wait(self._part())

    def mend(self) -> None:
        """Accept connections again, at the same port."""
        self._wait(self._listen())

    # -- in the loop's thread --------------------------------------------------------------------------------------

    def _wait(self, work: Any) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.result(GIVE_UP_S)

    async def _open(self) -> None:
        upstream = ssl.create_default_context(cafile=str(self._cluster.ca_file))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=upstream, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=4 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await self._listen()

    async def _listen(self) -> None:
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own.load_cert_chain(self._cluster.folder / "server.crt", self._cluster.folder / "server.key")
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=own, reuse_address=True)
        await self._site.start()

    async def _part(self) -> None:
        await self._site.stop()
        server = self._runner.server
        assert server is not None
        for connection in list(server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def _close(self) -> None:
        await self._part()
        await self._runner.cleanup()
        await self._session.close()
        await asyncio.sleep(0.05)  # connections that are cut say so to the loop once more

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fault = next((one for one in list(self.faults) if one.takes(request.method, request.path_qs)), None)
        kind = fault.kind if fault is not None else ""
        if fault is not None and kind == "refuse":
            return _refusal(fault)
        if kind == "stall":
            await asyncio.Event().wait()
        if fault is not None and kind == "delay":
            await asyncio.sleep(fault.seconds)
        while fault is not None and kind == "hold" and not fault.gate.is_set():
            await asyncio.sleep(0.01)
        if binding(request.method, request.path):
            self.binds.add(body)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in (*_HOP, "host")}
        address = f"{self._cluster.url}{request.raw_path}"
        try:
            async with self._session.request(request.method, address, headers=headers, data=body or None) as answer:
                try:
                    if kind == "swallow":
                        await answer.read()
                        return _hang_up(request)
                    if kind == "mute":
                        await web.StreamResponse(status=answer.status, headers=_kept(answer)).prepare(request)
                        await asyncio.Event().wait()
                    most = fault.size if fault is not None and kind == "cut" else None
                    return await self._pass_on(request, answer, most)
                finally:
                    _leave(answer)
        except aiohttp.ClientError:
            return _hang_up(request)

    async def _pass_on(
        self, request: web.Request, answer: aiohttp.ClientResponse, most: int | None
    ) -> web.StreamResponse:
        passed = web.StreamResponse(status=answer.status, headers=_kept(answer))
        passed.enable_chunked_encoding()
        await passed.prepare(request)
        async for piece in answer.content.iter_any():
            if most is not None and len(piece) >= most:
                await passed.write(piece[:most])
                return _hang_up(request, passed)
            most = None if most is None else most - len(piece)
            await passed.write(piece)
        await passed.write_eof()
        return passed


def _kept(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}


def _refusal(fault: Fault) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": fault.status}
    status |= {"reason": "TooManyRequests" if fault.status == 429 else "ServiceUnavailable", "message": "by the test"}
    headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
    return web.json_response(fault.body or status, status=fault.status, headers=headers)


def _leave(answer: aiohttp.ClientResponse) -> None:
    """Abort the connection of an incomplete response; a TLS shutdown could outlive the loop."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


def _hang_up(request: web.Request, answer: web.StreamResponse | None = None) -> web.StreamResponse:
    """End the connection without another byte."""
    if request.transport is not None:
        request.transport.abort()
    return answer or web.Response()
