"""The transport to real API servers: HTTP/1.1, keep-alive, verified TLS. Reads use aiohttp, writes do not.

Binds are most of what a scheduler sends. aiohttp spends twice the processor time on each of them and repeats PUT and
DELETE on its own when a kept connection breaks. ``Connections`` keeps connections for writes: one request, one
response, never a second attempt, and it is known whether it was sent. Reads and watches, with large or endless
responses, stay with aiohttp.

Every millisecond spent here is taken from the API server if both share a machine. So headers and time limits are built
once, and each call does only what it must. Each write is sent once, whatever its method, because only the caller knows
whether repeating it is safe. A rejected credential is renewed and presented once more.

``client_for`` makes a client from a kubeconfig in one call; most callers need only that.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from hostler.errors import HostlerError
from hostler.kube.api.access import Access, read_access
from hostler.kube.api.answers import BufferedResponse, LineSplitter, parse_answer
from hostler.kube.api.client import KubeClient
from hostler.kube.api.credentials import ClientIdentity
from hostler.kube.api.failures import lost_answer, unsent
from hostler.kube.api.tls import Authority, make_tls
from hostler.runtime.transport import Request, TransportError

__all__ = ["AiohttpTransport", "Connections", "NotSentError", "client_for"]

_MAX_IDLE_S = 15.0  # a server may drop a connection that was idle for long, just when we use it
_CLOSE_S = 2.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MAX_CONNECT_S = 10.0
_RENEW_PAUSE_S = 10.0  # between renewals after rejections: a plugin is slow, and a wrong user stays wrong
_BUFFER_BYTES = 2**20  # received before back-pressure; a list page is larger than aiohttp's default


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


class AiohttpTransport:
    """Sends requests to one server. May be made before or inside an event loop; used in one."""

    def __init__(self, access: Access, *, max_connections: int = 128) -> None:
        self._access = access
        self._max_connections = max_connections
        self._address = urlsplit(access.server)
        self._is_loopback = self._address.hostname in _LOOPBACK
        self._reads: aiohttp.ClientSession | None = None
        self._writes: Connections | None = None
        self._identity: ClientIdentity | None = None
        self._authority = Authority(access.authority, access.read_authority)
        self._tls: ssl.SSLContext | None = None
        self._headers: dict[tuple[str, str, bool], CIMultiDict[str]] = {}
        self._heads: dict[tuple[str, str, str], str] = {}  # for writes, from the HTTP version to the length of the body
        self._renewing = asyncio.Lock()
        self._renewed_at = float("-inf")

    async def send(self, request: Request) -> HttpResponse | BufferedResponse:
        """Send a request and wait for the response headers."""
        identity = await self._current_identity()
        send_once = self._read if request.method == "GET" else self._write
        response = await send_once(request)
        if response.status == 401 and await self._renew_after_refusal(identity):
            await response.close()
            response = await send_once(request)
        return response

    async def close(self) -> None:
        """End all connections."""
        reads, writes, self._reads, self._writes = self._reads, self._writes, None, None
        if reads is not None:
            await reads.close()
        if writes is not None:
            await writes.close()

    async def _write(self, request: Request) -> BufferedResponse:
        if self._writes is None:
            port = self._address.port or (443 if self._address.scheme == "https" else 80)
            self._writes = Connections(self._address.hostname or "", port, self._max_connections)
        path = self._address.path + request.path
        if not (path.isascii() and path.isprintable() and " " not in path):
            raise TransportError("not a valid path", may_have_acted=False)
        head = f"{request.method} {path}{self._head_for(request)}{len(request.body)}\r\n\r\n"
        try:
            return await self._writes.exchange(
                head.encode() + request.body, request.timeout_s, self._tls, self._access.server_name
            )
        except NotSentError as error:
            raise unsent(self._access, error.__cause__ or error) from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise lost_answer(self._access, error, request.timeout_s) from error

    async def _read(self, request: Request) -> HttpResponse:
        if self._reads is None:
            self._reads = self._new_session()
        url = URL(self._access.server + request.path, encoded=True)
        is_stream = request.is_stream
        try:
            # A stream's time limit ends with its headers.
            async with asyncio.timeout(request.timeout_s if is_stream else None):
                response = await self._reads.request(
                    request.method,
                    url,
                    headers=self._headers_for(request),
                    allow_redirects=False,
                    timeout=_time_limit(0.0 if is_stream else request.timeout_s),
                    ssl=self._tls or True,
                    server_hostname=self._access.server_name or None,
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise unsent(self._access, error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise lost_answer(self._access, error, request.timeout_s) from error
        return HttpResponse(response, self._access, request.timeout_s)

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ttl_dns_cache=60
            ),  # watches keep their connections: a limit could starve lists
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
            trust_env=False,
            read_bufsize=_BUFFER_BYTES,
        )

    def _head_for(self, request: Request) -> str:
        key = (request.content_type, request.accept, request.user_agent)
        head = self._heads.get(key)
        if head is None:
            lines = [" HTTP/1.1", f"Host: {self._address.netloc}", f"User-Agent: {request.user_agent}"]
            lines += [f"Accept: {request.accept}", f"Content-Type: {request.content_type}"]
            if self._identity is not None and self._identity.token:
                lines.append(f"Authorization: Bearer {self._identity.token}")
            head = self._heads[key] = "\r\n".join([*lines, "Content-Length: "])
        return head

    def _headers_for(self, request: Request) -> CIMultiDict[str]:
        key = (request.accept, request.user_agent, request.is_stream)
        headers = self._headers.get(key)
        if headers is None:
            headers = CIMultiDict({"Accept": request.accept, "User-Agent": request.user_agent})
            if not (self._is_loopback or request.is_stream):
                headers["Accept-Encoding"] = "gzip"
            if self._identity is not None and self._identity.token:
                headers["Authorization"] = f"Bearer {self._identity.token}"
            self._headers[key] = headers
        return headers

    async def _current_identity(self) -> ClientIdentity:
        """Renew the credential if it is due, and switch to an identity that changed."""
        credential = self._access.credential
        if credential.is_due():
            async with self._renewing:
                if credential.is_due():
                    await self._renew()
        identity = credential.identity
        is_new_authority = self._authority.renew(asyncio.get_running_loop().time())
        if identity is not self._identity or is_new_authority:
            self._take(identity, is_new_authority=is_new_authority)
        return identity

    async def _renew_after_refusal(self, refused: ClientIdentity) -> bool:
        """Return whether there is another identity to try than the rejected one."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self._access.credential.identity is refused and now - self._renewed_at >= _RENEW_PAUSE_S:
                self._renewed_at = now
                await self._renew()
        identity = await self._current_identity()
        return not identity.is_same(refused)

    async def _renew(self) -> None:
        try:
            await self._access.credential.renew()
        except HostlerError as error:
            raise TransportError(error.message, may_have_acted=False, hint=error.hint) from error

    def _take(self, identity: ClientIdentity, *, is_new_authority: bool) -> None:
        is_new_certificate = self._identity is None or (
            (identity.certificate, identity.key) != (self._identity.certificate, self._identity.key)
        )
        if (is_new_certificate or is_new_authority) and self._access.server.startswith("https:"):
            try:
                self._tls = make_tls(self._authority.pem, identity, is_insecure=self._access.is_insecure)
            except HostlerError as error:
                raise TransportError(error.message, may_have_acted=False, hint=error.hint) from error
        self._identity = identity
        self._headers.clear()
        self._heads.clear()


class HttpResponse:
    """A response of a real server."""

    def __init__(self, response: aiohttp.ClientResponse, access: Access, timeout_s: float) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers  # accepts names in any case
        self._response = response
        self._access = access
        self._timeout_s = timeout_s

    async def read(self) -> bytes:
        """Return the whole body."""
        try:
            return await self._response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise lost_answer(self._access, error, self._timeout_s) from error

    async def line_batches(self) -> AsyncIterator[list[bytes]]:
        """Iterate over a stream: for each received piece, the lines that it completed."""
        splitter, content = LineSplitter(), self._response.content
        while True:
            try:
                piece = await content.readany()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise lost_answer(self._access, error, self._timeout_s) from error
            if not piece:
                splitter.end()
                return
            lines = splitter.feed(piece)
            if lines:
                yield lines

    async def close(self) -> None:
        """Return the connection to the pool, or end it if the body was not read."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            connection = self._response.connection
            if connection is not None and connection.transport is not None:
                # A TLS shutdown waits for the server's, which may come after the loop has ended, so abort instead.
                connection.transport.abort()
            self._response.close()


@functools.lru_cache(maxsize=64)
def _time_limit(timeout_s: float) -> aiohttp.ClientTimeout:
    connect_s = min(timeout_s, _MAX_CONNECT_S) if timeout_s else _MAX_CONNECT_S
    return aiohttp.ClientTimeout(total=timeout_s or None, sock_connect=connect_s)


def client_for(
    kubeconfig: Path | None = None, context: str = "", *, user_agent: str = "hostler", max_connections: int = 128
) -> KubeClient:
    """Make a client; nothing is sent yet. Close it after use."""
    transport = AiohttpTransport(read_access(kubeconfig, context), max_connections=max_connections)
    return KubeClient(transport, user_agent=user_agent)
