"""The transport to real API servers: HTTP/1.1, keep-alive, verified TLS. Reads use aiohttp, writes ``connections``.

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
from hostler.kube.api.answers import BufferedResponse, LineSplitter
from hostler.kube.api.client import KubeClient
from hostler.kube.api.connections import Connections, NotSentError
from hostler.kube.api.credentials import ClientIdentity
from hostler.kube.api.failures import lost_answer, unsent
from hostler.kube.api.tls import Authority, make_tls
from hostler.runtime.transport import Request, TransportError

__all__ = ["AiohttpTransport", "client_for"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MAX_CONNECT_S = 10.0
_RENEW_PAUSE_S = 10.0  # between renewals after rejections: a plugin is slow, and a wrong user stays wrong
_BUFFER_BYTES = 2**20  # received before back-pressure; a list page is larger than aiohttp's default


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
        self._authority = Authority(access.authority, access.authority_file)
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
