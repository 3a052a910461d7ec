"""HTTP requests to one control plane: decoded responses, or exceptions.

A request that never reached the server is repeated, and so is one that the server put off (429, 503 with Retry-After).
A lost response is requested again if that changes nothing: for reads, and for changes with an idempotency key, which
the server answers the second time as the first. If http was used instead of https or the other way round, the error
says so. Lists are fetched page by page, as they are read.
"""

from __future__ import annotations

import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from hostler._version import __version__
from hostler.control.client.errors import (
    UNREADABLE,
    AnswerError,
    ServerNotFoundError,
    UnreachableError,
    error_for_problem,
    read_problem,
)
from hostler.control.client.responses import UNENCODED, read_body
from hostler.control.client.server_target import ServerTarget, tls_context
from hostler.control.schemas import Page

__all__ = [
    "IDEMPOTENCY_HEADER",
    "HttpAnswer",
    "Query",
    "Wire",
    "is_not_tls",
    "list_items",
    "other_scheme",
    "path_of",
    "speaks_tls",
]

T = TypeVar("T")
Query = Mapping[str, str | int | Sequence[str] | None]

IDEMPOTENCY_HEADER = "Idempotency-Key"
USER_AGENT = f"hostler/{__version__}"

PAGE = 200  # things of one page of a list
_TRIES = 4
_PAUSES_S = (0.1, 0.4, 1.5)
_CONNECT_S = 5.0
_ANSWER_S = 30.0
_WHOLE = 4  # times as long may an answer take that has begun
_LONGEST_PAUSE_S = 30.0  # a longer Retry-After is reported to the caller instead
_PUT_OFF = (429, 503)
_FINAL = ("no_available_agents",)  # a 503 that is the answer to a question, and no reason to ask again
_READING = ("GET", "HEAD")
_MOST_EMPTY = 250  # pages in a row: what a filter leaves out may fill some


class HttpAnswer(msgspec.Struct, frozen=True):
    """A response."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def is_success(self) -> bool:
        """Return whether the status is a success."""
        return 200 <= self.status < 300

    def decode(self, into: type[T]) -> T:
        """Decode the body to a struct."""
        try:
            return msgspec.json.decode(self.body, type=into)
        except UNREADABLE as error:
            hint = "is this the address of a control plane? 'hostler version' here and there should agree"
            raise AnswerError(f"the server's answer is not understood: {error}", hint=hint) from error


class Wire:
    """A connection to one control plane until it is closed. Not thread-safe."""

    def __init__(
        self,
        target: ServerTarget,
        *,
        sleep: Callable[[float], None] = time.sleep,
        answer_s: float = _ANSWER_S,
        page: int = PAGE,
    ) -> None:
        self.target = target
        self.page = page
        self._sleep = sleep
        self._answer_s = answer_s
        self._was_lost = False  # of the request under way, an answer: the server may have done it
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": UNENCODED}
        if target.key:
            headers["Authorization"] = f"Bearer {target.key}"
        self._http = httpx.Client(
            base_url=target.server,
            headers=headers,
            verify=tls_context(target.ca_file) if target.server.startswith("https:") else True,
            follow_redirects=False,  # a key is shown to the server that it is for, and to no other
            trust_env=False,
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, path: str, into: type[T], query: Query | None = None, *, wait_s: float = 0.0) -> T:
        """Send a GET; ``wait_s`` is how long the server may take in addition to the usual time-out."""
        return self.send("GET", path, query=query, wait_s=wait_s).decode(into)

    def change(
        self, method: str, path: str, into: type[T], *, body: object = None, query: Query | None = None,
        version: str = "", wait_s: float = 0.0, is_once: bool = False,
    ) -> T:  # fmt: skip
        """Send a change; if ``version`` is given, only at that version."""
        answer = self.send(method, path, body=body, query=query, version=version, wait_s=wait_s, is_once=is_once)
        return answer.decode(into)

    def remove(self, path: str, query: Query | None = None) -> None:
        """Send a DELETE. A repetition after a lost response accepts that the object is gone."""
        try:
            self.send("DELETE", path, query=query)
        except ServerNotFoundError:
            if not self._was_lost:
                raise

    def send(
        self, method: str, path: str, *, body: object = None, query: Query | None = None, version: str = "",
        wait_s: float = 0.0, is_once: bool = False,
    ) -> HttpAnswer:  # fmt: skip
        """Send a request, again if that is safe, and return the response; exceptions for everything else.

        ``is_once``: a lost response is not requested again, because servers do not store secrets to repeat them.
        """
        self._was_lost = False
        request = self._request(method, path, body=body, query=query, version=version, wait_s=wait_s, is_once=is_once)
        for tries in range(1, _TRIES):
            try:
                answer = self._exchange(request)
            except httpx.TransportError as error:
                if not _is_repeatable(request, error, tries):
                    raise self.failure(error, is_change=request.method not in _READING) from error
                self._was_lost |= not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                pause_s = 0.0
            else:
                if answer.is_success:
                    return answer
                problem = read_problem(answer.status, answer.body)
                asked_s = _retry_after_s(answer)
                if asked_s is None or asked_s > _LONGEST_PAUSE_S or problem.code in _FINAL:
                    raise error_for_problem(problem)
                pause_s = asked_s
            self._sleep(max(pause_s, _PAUSES_S[tries - 1]))
        return self._last(request)

    def _last(self, request: httpx.Request) -> HttpAnswer:
        """Send a request for the last time."""
        try:
            answer = self._exchange(request)
        except httpx.TransportError as error:
            raise self.failure(error, is_change=request.method not in _READING) from error
        if answer.is_success:
            return answer
        raise error_for_problem(read_problem(answer.status, answer.body))

    def _exchange(self, request: httpx.Request) -> HttpAnswer:
        """Send a request once, and read the whole response."""
        response = self._http.send(request, stream=True)
        try:
            return HttpAnswer(response.status_code, read_body(response, self._answer_s * _WHOLE), response.headers)
        finally:
            response.close()

    @contextmanager
    def stream(self, path: str, query: Query | None, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Open a streamed response. The caller reads it, and translates errors with ``failure``."""
        timeout = httpx.Timeout(_CONNECT_S, read=self._answer_s * 2)
        with self._http.stream("GET", path, params=_params(query), headers=dict(headers), timeout=timeout) as answer:
            if not answer.is_success:
                raise error_for_problem(read_problem(answer.status_code, read_body(answer, self._answer_s * _WHOLE)))
            yield answer

    def _request(
        self, method: str, path: str, *, body: object, query: Query | None, version: str, wait_s: float, is_once: bool
    ) -> httpx.Request:
        headers: dict[str, str] = {}
        content: bytes | None = None
        if body is not None:
            content = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        if method not in _READING and not is_once:
            headers[IDEMPOTENCY_HEADER] = str(uuid.uuid4())
        if version:
            headers["If-Match"] = version
        timeout = httpx.Timeout(self._answer_s + wait_s, connect=_CONNECT_S)
        return self._http.build_request(
            method, path, params=_params(query), content=content, headers=headers, timeout=timeout
        )

    def failure(self, error: httpx.TransportError, *, is_change: bool = False) -> UnreachableError:
        """Return the exception for a network error. A change whose response was lost may have been applied."""
        server = self.target.server
        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            return UnreachableError(f"{server} does not answer", hint="check the address, and that the service runs")
        if isinstance(error, httpx.TimeoutException):
            hint = "it may be done: look at what is there, then try again" if is_change else "try again in a moment"
            return UnreachableError(f"{server} took too long to answer", hint=hint)
        what = str(error) or type(error).__name__
        if isinstance(error, httpx.ConnectError):
            if is_not_tls(error):
                hint = f"it seems to speak plain http: {other_scheme(server)}"
                return UnreachableError(f"{server} answers, but not in https", hint=hint)
            hint = "check the address, and that the service runs ('hostler serve')"
            if "CERTIFICATE" in what.upper():
                hint = "name the authority that signed the server's certificate with --ca-file"
            return UnreachableError(f"{server} cannot be reached: {what}", hint=hint)
        if server.startswith("http:") and speaks_tls(server):
            return UnreachableError(
                f"{server} answers, but not in http", hint=f"it speaks https: {other_scheme(server)}"
            )
        return UnreachableError(f"the connection to {server} broke: {what}", hint="try again in a moment")


def _params(query: Query | None) -> tuple[tuple[str, str], ...]:
    """Return a query as pairs, without empty values; a parameter with several values is repeated."""
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        pairs += [(name, str(one)) for one in values if one is not None and one != ""]
    return tuple(pairs)


def _is_repeatable(request: httpx.Request, error: httpx.TransportError, tries: int) -> bool:
    """Return whether a repetition cannot apply a change twice, and may help."""
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return False
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return "CERTIFICATE" not in str(error).upper() and not is_not_tls(error)  # it never arrived
    if isinstance(error, httpx.TimeoutException) and tries > 1:
        return False  # twice is long enough to wait for nothing
    return request.method in _READING or IDEMPOTENCY_HEADER in request.headers


def _retry_after_s(answer: HttpAnswer) -> float | None:
    """Return how long a server puts a request off; None if it does not."""
    asked = answer.headers.get("Retry-After", "")
    return float(asked) if answer.status in _PUT_OFF and asked.isdecimal() else None


def path_of(*parts: str) -> str:
    """Return a path below /v1, with its parts quoted."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")  # versions of OpenSSL differ
_ASK_S = 2.0


def is_not_tls(error: Exception) -> bool:
    """Return whether a handshake failed because the response is not TLS."""
    text = str(error).upper().replace(" ", "_")
    return any(word in text for word in _NOT_TLS)


def other_scheme(server: str) -> str:
    """Return an address with http instead of https, or the other way round."""
    scheme, _, rest = server.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{rest}"


def speaks_tls(server: str) -> bool:
    """Return whether a server answers a TLS handshake. Nothing else is sent, so any server may answer."""
    address = urlsplit(server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((address.hostname or "", address.port or 80), timeout=_ASK_S) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except OSError:
        return False


def list_items(
    wire: Wire, path: str, page: type[Page[T]], query: Query | None = None, *, limit: int = 0
) -> Iterator[T]:
    """Yield the items of a list; at most ``limit`` unless that is 0."""
    asked: dict[str, Any] = {**(query or {}), "limit": min(limit, wire.page) if limit else wire.page}
    left = limit or -1
    seen: set[str] = set()
    empty = 0
    while True:
        answer = wire.read(path, page, asked)
        empty = 0 if answer.items else empty + 1
        for item in answer.items:
            yield item
            left -= 1
            if not left:
                return
        if not answer.next:
            return
        if answer.next in seen or empty > _MOST_EMPTY:
            raise AnswerError(
                f"the server's list of {path} does not end", hint="is this the address of a control plane?"
            )
        seen.add(answer.next)
        asked["after"] = answer.next
