"""Requests to one control plane, and what comes back: decoded answers, or errors of ours.

What never reached the server is sent again; so is what it put off (429, 503 with Retry-After). An answer that got lost
is asked for again where that changes nothing: reading, and changes that carry an idempotency key, which the server
answers the second time as it did the first.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar
from urllib.parse import quote

import httpx
import msgspec

from hostler._version import __version__
from hostler.control.client.bounded import UNENCODED, read_body
from hostler.control.client.errors import (
    UNREADABLE,
    AnswerError,
    UnknownThereError,
    UnreachableError,
    read_problem,
    refusal,
)
from hostler.control.client.reach import Reach, trusted
from hostler.control.client.schemes import is_not_tls, other_scheme, speaks_tls

__all__ = ["IDEMPOTENCY_HEADER", "Answer", "Query", "Wire", "path_of"]

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
_LONGEST_PAUSE_S = 30.0  # whom a server puts off for longer, he is told so instead
_PUT_OFF = (429, 503)
_FINAL = ("no_available_agents",)  # a 503 that is the answer to a question, and no reason to ask again
_READING = ("GET", "HEAD")


class Answer(msgspec.Struct, frozen=True):
    """An answer as it came."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def is_success(self) -> bool:
        """Say whether it is what was asked for."""
        return 200 <= self.status < 300

    def decode(self, into: type[T]) -> T:
        """Read the body as one of our shapes."""
        try:
            return msgspec.json.decode(self.body, type=into)
        except UNREADABLE as error:
            hint = "is this the address of a control plane? 'hostler version' here and there should agree"
            raise AnswerError(f"the server's answer is not understood: {error}", hint=hint) from error


class Wire:
    """One control plane; holds connections until it is closed. For one thread."""

    def __init__(
        self,
        reach: Reach,
        *,
        sleep: Callable[[float], None] = time.sleep,
        answer_s: float = _ANSWER_S,
        page: int = PAGE,
    ) -> None:
        self.reach = reach
        self.page = page
        self._sleep = sleep
        self._answer_s = answer_s
        self._was_lost = False  # of the request under way, an answer: the server may have done it
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": UNENCODED}
        if reach.key:
            headers["Authorization"] = f"Bearer {reach.key}"
        self._http = httpx.Client(
            base_url=reach.server,
            headers=headers,
            verify=trusted(reach.ca_file) if reach.server.startswith("https:") else True,
            follow_redirects=False,  # a key is shown to the server that it is for, and to no other
            trust_env=False,
        )

    def close(self) -> None:
        """End all connections."""
        self._http.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, path: str, into: type[T], query: Query | None = None, *, wait_s: float = 0.0) -> T:
        """Read something; ``wait_s`` is how long the server may take beyond the usual."""
        return self.send("GET", path, query=query, wait_s=wait_s).decode(into)

    def change(
        self, method: str, path: str, into: type[T], *, body: object = None, query: Query | None = None,
        version: str = "", wait_s: float = 0.0, is_once: bool = False,
    ) -> T:  # fmt: skip
        """Change something; where ``version`` is given, only if it is still that one."""
        answer = self.send(method, path, body=body, query=query, version=version, wait_s=wait_s, is_once=is_once)
        return answer.decode(into)

    def remove(self, path: str, query: Query | None = None) -> None:
        """Remove something; whoever asks again because no answer came may find it gone."""
        try:
            self.send("DELETE", path, query=query)
        except UnknownThereError:
            if not self._was_lost:
                raise

    def send(
        self, method: str, path: str, *, body: object = None, query: Query | None = None, version: str = "",
        wait_s: float = 0.0, is_once: bool = False,
    ) -> Answer:  # fmt: skip
        """Send a request, again where that is safe, and return the answer; errors of ours for everything else.

        ``is_once``: an answer that got lost is not asked for again, since no server keeps secrets to repeat them.
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
                    raise refusal(problem)
                pause_s = asked_s
            self._sleep(max(pause_s, _PAUSES_S[tries - 1]))
        return self._last(request)

    def _last(self, request: httpx.Request) -> Answer:
        """Send a request for the last time."""
        try:
            answer = self._exchange(request)
        except httpx.TransportError as error:
            raise self.failure(error, is_change=request.method not in _READING) from error
        if answer.is_success:
            return answer
        raise refusal(read_problem(answer.status, answer.body))

    def _exchange(self, request: httpx.Request) -> Answer:
        """Send a request once, and read all of its answer."""
        response = self._http.send(request, stream=True)
        try:
            return Answer(response.status_code, read_body(response, self._answer_s * _WHOLE), response.headers)
        finally:
            response.close()

    @contextmanager
    def stream(self, path: str, query: Query | None, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Open an answer that goes on; the caller reads it, and translates what goes wrong by ``failure``."""
        timeout = httpx.Timeout(_CONNECT_S, read=self._answer_s * 2)
        with self._http.stream("GET", path, params=_params(query), headers=dict(headers), timeout=timeout) as answer:
            if not answer.is_success:
                raise refusal(read_problem(answer.status_code, read_body(answer, self._answer_s * _WHOLE)))
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
        """Return our error for one of the network's; a change whose answer got lost may have been made."""
        server = self.reach.server
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
    """Return a query as pairs, without what is empty; what has several values is there several times."""
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        pairs += [(name, str(one)) for one in values if one is not None and one != ""]
    return tuple(pairs)


def _is_repeatable(request: httpx.Request, error: httpx.TransportError, tries: int) -> bool:
    """Say whether sending it again cannot do a thing twice, and may help."""
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return False
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return "CERTIFICATE" not in str(error).upper() and not is_not_tls(error)  # it never arrived
    if isinstance(error, httpx.TimeoutException) and tries > 1:
        return False  # twice is long enough to wait for nothing
    return request.method in _READING or IDEMPOTENCY_HEADER in request.headers


def _retry_after_s(answer: Answer) -> float | None:
    """Return for how long a server puts a request off; None where it does not."""
    asked = answer.headers.get("Retry-After", "")
    return float(asked) if answer.status in _PUT_OFF and asked.isdecimal() else None


def path_of(*parts: str) -> str:
    """Return a path below /v1 of parts that may hold anything."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)
