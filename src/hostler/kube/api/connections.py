"""Kept-alive connections for writes: one request, one response, and never a second attempt.

Binds are most of what a scheduler sends. aiohttp spends twice the processor time on each of them and repeats PUT and
DELETE on its own when a kept connection breaks. Here a write is sent once, and it is known whether it was sent. Reads
and watches, with large or endless responses, stay with aiohttp. Used by ``http``.
"""

from __future__ import annotations

import asyncio
import ssl

import aiohttp

from hostler.kube.api.answers import BufferedResponse, parse_answer

__all__ = ["Connections", "NotSentError"]

_MAX_IDLE_S = 15.0  # a server may drop a connection that was idle for long, just when we use it
_MAX_CONNECT_S = 10.0
_CLOSE_S = 2.0


class NotSentError(Exception):
    """No connection was made, so nothing was sent; the cause says why."""


class _Connection(asyncio.Protocol):
    """One connection with at most one request in flight."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.is_open = False
        self.is_reusable = False
        self.idle_since = 0.0
        self.closed: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._received = b""
        self._waiter: asyncio.Future[BufferedResponse] | None = None
        self._transport: asyncio.Transport

    def exchange(self, request: bytes) -> asyncio.Future[BufferedResponse]:
        """Send a request; the future is the response."""
        self._received, self.is_reusable = b"", False
        self._waiter = self._loop.create_future()
        self._transport.write(request)
        return self._waiter

    def expire(self) -> None:
        """Fail the request: its time is up."""
        self._fail(TimeoutError())

    def abort(self) -> None:
        """End the connection at once."""
        self.is_open = self.is_reusable = False
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment]  # of TCP and of TLS it is a Transport
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Finish when the response is complete. Unexpected bytes make the connection unusable."""
        if self._waiter is None or self._waiter.done():
            self.abort()
            return
        self._received = self._received + data if self._received else data
        self._finish_if_whole()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request in flight, unless the end of the connection ends its response."""
        self.is_open = self.is_reusable = False
        if not self.closed.done():
            self.closed.set_result(None)
        if self._waiter is None or self._waiter.done():
            return
        if exc is None and self._received:
            self._finish_if_whole(is_ended=True)
        if not self._waiter.done():
            lost = aiohttp.ClientPayloadError() if self._received else aiohttp.ServerDisconnectedError()
            self._waiter.set_exception(exc or lost)

    def _finish_if_whole(self, *, is_ended: bool = False) -> None:
        assert self._waiter is not None
        try:
            answer = parse_answer(self._received, is_ended=is_ended)
        except ValueError as error:
            self._fail(error)
            return
        if answer is not None:
            response, self.is_reusable = answer
            self._waiter.set_result(response)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()


class Connections:
    """A pool of connections to one server; the most recently used one is taken first."""

    def __init__(self, host: str, port: int, limit: int) -> None:
        self._host = host
        self._port = port
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()

    async def exchange(
        self, request: bytes, timeout_s: float, tls: ssl.SSLContext | None, server_name: str
    ) -> BufferedResponse:
        """Send a request and return its response; NotSentError if it was never sent."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        await self._take_slot(timeout_s)
        try:
            connection = self._take_idle(tls, loop.time())
            if connection is None:
                connection = await self._connect(end - loop.time(), tls, server_name)
            timer = loop.call_at(end, connection.expire)
            try:
                response = await connection.exchange(request)
            except BaseException:
                connection.abort()
                raise
            finally:
                timer.cancel()
            if connection.is_reusable:
                connection.idle_since = loop.time()
                self._idle.append(connection)
            else:
                connection.abort()
            return response
        finally:
            self._slots.release()

    async def close(self) -> None:
        """End all connections and wait until they are closed."""
        self._idle.clear()
        connections = list(self._all)
        for connection in connections:
            connection.abort()
        if connections:
            await asyncio.wait([connection.closed for connection in connections], timeout=_CLOSE_S)

    async def _take_slot(self, timeout_s: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError as error:
            raise NotSentError from error

    def _take_idle(self, tls: ssl.SSLContext | None, now: float) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.tls is tls and now - connection.idle_since < _MAX_IDLE_S:
                return connection
            connection.abort()
        return None

    async def _connect(self, left_s: float, tls: ssl.SSLContext | None, server_name: str) -> _Connection:
        loop = asyncio.get_running_loop()
        connection = _Connection(loop, tls)
        name = (server_name or self._host) if tls is not None else None
        try:
            async with asyncio.timeout(min(left_s, _MAX_CONNECT_S)):
                await loop.create_connection(lambda: connection, self._host, self._port, ssl=tls, server_hostname=name)
        except (OSError, TimeoutError) as error:
            raise NotSentError from error
        if not connection.is_open:
            raise NotSentError from ConnectionResetError("the server closed the connection at once")
        self._all.add(connection)
        connection.closed.add_done_callback(lambda _: self._all.discard(connection))
        return connection
