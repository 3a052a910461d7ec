"""The Transport to real API servers, on aiohttp: HTTP/1.1, keep-alive, verified TLS.

Every millisecond spent here is taken from the API server when both share a machine, so headers and time limits are made
once and nothing happens per call that need not. Each call is tried once, whatever its method, because only the caller
knows whether a second try would do harm; a refused credential is renewed and shown once more.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from hostler.errors import HostlerError
from hostler.kube.api.access import Access
from hostler.kube.api.credentials import Identity
from hostler.kube.api.lines import LineSplitter
from hostler.kube.api.network_failures import lost_answer, unsent
from hostler.kube.api.tls import make_tls
from hostler.kube.api.transport import Request, TransportError

__all__ = ["AiohttpTransport"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MAX_CONNECT_S = 10.0
_RENEW_PAUSE_S = 10.0  # between renewals that refusals cause: a plugin is slow, and a wrong user stays wrong
_BUFFER_BYTES = 2**20  # received before the sender is told to wait; a list page is larger than aiohttp's default


class AiohttpTransport:
    """Carries requests to one server; made before or inside an event loop, used in one."""

    def __init__(self, access: Access, *, max_connections: int = 128) -> None:
        self._access = access
        self._max_connections = max_connections
        self._is_loopback = urlsplit(access.server).hostname in _LOOPBACK
        self._reads: aiohttp.ClientSession | None = None
        self._writes: aiohttp.ClientSession | None = None
        self._identity: Identity | None = None
        self._tls: ssl.SSLContext | bool = True
        self._headers: dict[tuple[str, str, str, bool], CIMultiDict[str]] = {}
        self._renewing = asyncio.Lock()
        self._renewed_at = float("-inf")

    async def send(self, request: Request) -> HttpResponse:
        """Send a request and wait for the answer's headers."""
        identity = await self._current_identity()
        response = await self._send_once(request)
        if response.status == 401 and await self._renew_after_refusal(identity):
            await response.close()
            response = await self._send_once(request)
        return response

    async def close(self) -> None:
        """End all connections."""
        for session in (self._reads, self._writes):
            if session is not None:
                await session.close()
        self._reads = self._writes = None

    async def _send_once(self, request: Request) -> HttpResponse:
        session = self._session_for(request)
        url = URL(self._access.server + request.path, encoded=True)
        is_stream = request.is_stream
        try:
            # A stream's time limit ends with its headers.
            async with asyncio.timeout(request.timeout_s if is_stream else None):
                response = await session.request(
                    request.method,
                    url,
                    data=request.body or None,
                    headers=self._headers_for(request),
                    allow_redirects=False,
                    timeout=_time_limit(0.0 if is_stream else request.timeout_s),
                    ssl=self._tls,
                    server_hostname=self._access.server_name or None,
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise unsent(self._access, error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise lost_answer(self._access, error, request.timeout_s) from error
        return HttpResponse(response, self._access, request.timeout_s)

    def _session_for(self, request: Request) -> aiohttp.ClientSession:
        if request.method == "GET":
            if self._reads is None:
                self._reads = self._new_session(limit=0)  # watches keep theirs, so a limit could starve lists
            return self._reads
        if self._writes is None:
            self._writes = self._new_session(limit=self._max_connections)
            # aiohttp repeats PUT and DELETE when a kept connection breaks; a write must not happen twice unseen.
            self._writes._retry_connection = False
        return self._writes

    def _new_session(self, limit: int) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=limit, ttl_dns_cache=60)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
            trust_env=False,
            read_bufsize=_BUFFER_BYTES,
        )

    def _headers_for(self, request: Request) -> CIMultiDict[str]:
        key = (request.content_type, request.accept, request.user_agent, request.is_stream)
        headers = self._headers.get(key)
        if headers is None:
            headers = CIMultiDict({"Accept": request.accept, "User-Agent": request.user_agent})
            headers["Content-Type"] = request.content_type
            if not (self._is_loopback or request.is_stream):
                headers["Accept-Encoding"] = "gzip"
            if self._identity is not None and self._identity.token:
                headers["Authorization"] = f"Bearer {self._identity.token}"
            self._headers[key] = headers
        return headers

    async def _current_identity(self) -> Identity:
        """Renew the credential if it is due, and take over an identity that changed."""
        credential = self._access.credential
        if credential.is_due():
            async with self._renewing:
                if credential.is_due():
                    await self._renew()
        identity = credential.identity
        if identity is not self._identity:
            self._take(identity)
        return identity

    async def _renew_after_refusal(self, refused: Identity) -> bool:
        """Say whether there is another identity to try than the one that was refused."""
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

    def _take(self, identity: Identity) -> None:
        is_new_certificate = self._identity is None or (
            (identity.certificate, identity.key) != (self._identity.certificate, self._identity.key)
        )
        if is_new_certificate and self._access.server.startswith("https:"):
            try:
                self._tls = make_tls(self._access.authority, identity, is_insecure=self._access.is_insecure)
            except HostlerError as error:
                raise TransportError(error.message, may_have_acted=False, hint=error.hint) from error
        self._identity = identity
        self._headers.clear()


class HttpResponse:
    """An answer of a real server."""

    def __init__(self, response: aiohttp.ClientResponse, access: Access, timeout_s: float) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers  # takes names in any letters
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
        """Iterate over a stream: the lines that each received piece completed."""
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
        """Give the connection back, or end it where the body was not read."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


@functools.lru_cache(maxsize=64)
def _time_limit(timeout_s: float) -> aiohttp.ClientTimeout:
    connect_s = min(timeout_s, _MAX_CONNECT_S) if timeout_s else _MAX_CONNECT_S
    return aiohttp.ClientTimeout(total=timeout_s or None, sock_connect=connect_s)
