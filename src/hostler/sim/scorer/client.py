"""Asks a scoring service over HTTP, and turns whatever comes back into an ``Answered``.

A failure never raises: it becomes an answer with an error and is counted by kind, and the run decides what happens to
the guest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from hostler.errors import InputError
from hostler.model import Answered, Ask, Guest
from hostler.sim.extras import missing_extra
from hostler.sim.scorer.nodes import NodeTexts
from hostler.sim.scorer.protocol import (
    ScorerCallError,
    Variant,
    batch_request,
    pod_amounts,
    pod_text,
    read_scores,
    read_single_score,
    single_request,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["ClientOptions", "ScorerCallCounts", "ScorerClient"]

_OK = 200
_BUSY = 429
_SERVER_ERRORS = 500


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to ask, how long to wait, and how much to take."""

    endpoint: str  # for example http://127.0.0.1:5000/score
    variant: Variant = "batch"
    timeout_s: float = 5.0  # for one try of one guest
    retries: int = 2
    backoff_s: float = 0.1  # before the first retry; doubled for each further one
    most_request_bytes: int = 64 << 20
    most_answer_bytes: int = 8 << 20
    missing: Literal["zero", "refuse"] = "zero"  # what a node without a score gets
    give_up_after: int = 20  # guests in a row without a usable answer; then the client stops asking


class ScorerCallCounts(msgspec.Struct):
    """Counts of requests and their outcomes."""

    asked: int = 0
    answered: int = 0
    retries: int = 0
    missing_scores: int = 0
    failures: dict[str, int] = {}
    first_failure: dict[str, str] = {}  # one sentence for each kind


class ScorerClient:
    """A connection to one service; close it, or use it in a ``with`` statement."""

    def __init__(self, options: ClientOptions, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.options = options
        self.tally = ScorerCallCounts()
        self._sleep = sleep
        self._in_a_row = 0
        self._http = _opened(options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def start_over(self) -> None:
        """Reset all counts, and ask again if the client had given up."""
        self.tally = ScorerCallCounts()
        self._in_a_row = 0

    def answer(self, ask: Ask, guest: Guest, nodes: NodeTexts) -> Answered:
        """Ask about the hosts of an action; on failure the answer has an error, and nothing raises."""
        try:
            scores = self._asked(ask, guest, nodes)
        except ScorerCallError as error:
            self._in_a_row += 1
            self.tally.failures[error.kind] = self.tally.failures.get(error.kind, 0) + 1
            self.tally.first_failure.setdefault(error.kind, error.text[:200])
            return Answered(uid=ask.uid, ask=ask.ask, error=error.text)
        self._in_a_row = 0
        self.tally.answered += 1
        missing = [host for host in ask.hosts if host not in scores]
        self.tally.missing_scores += len(missing)
        if self.options.missing == "refuse":
            kept = tuple((host, scores[host]) for host in ask.hosts if host in scores)
            return Answered(uid=ask.uid, ask=ask.ask, scores=kept, refused=tuple((h, "no score") for h in missing))
        return Answered(uid=ask.uid, ask=ask.ask, scores=tuple((host, scores.get(host, 0)) for host in ask.hosts))

    def _asked(self, ask: Ask, guest: Guest, nodes: NodeTexts) -> dict[str, int]:
        """Try, and try again where that may help."""
        if 0 < self.options.give_up_after <= self._in_a_row:
            raise ScorerCallError("given_up", f"the last {self._in_a_row} guests got no usable answer")
        self.tally.asked += 1
        for attempt in range(self.options.retries + 1):
            try:
                return self._try(ask, guest, nodes)
            except ScorerCallError as error:
                if not error.is_worth_a_retry or attempt == self.options.retries:
                    raise
            self.tally.retries += 1
            self._sleep(self.options.backoff_s * 2**attempt)
        raise AssertionError("the last try returns or raises")

    def _try(self, ask: Ask, guest: Guest, nodes: NodeTexts) -> dict[str, int]:
        deadline = time.monotonic() + self.options.timeout_s
        try:
            if self.options.variant == "batch":
                body = batch_request(pod_text(guest), [nodes.text(host) for host in ask.hosts])
                return read_scores(self._post(body, deadline), ask.hosts)
            pod = pod_amounts(guest)
            return {
                host: read_single_score(self._post(single_request(pod, nodes.text(host)), deadline), host)
                for host in ask.hosts
            }
        except InputError as error:
            raise ScorerCallError("not_writable", error.message) from error

    def _post(self, body: bytes, deadline: float) -> bytes:
        """Send one request and return the body of its answer."""
        import httpx

        options = self.options
        if len(body) > options.most_request_bytes:
            raise ScorerCallError("request_too_large", f"the request has {len(body):,} bytes")
        try:
            with self._http.stream(
                "POST", options.endpoint, content=body, timeout=_left(deadline, options)
            ) as response:
                if response.status_code != _OK:
                    retry = response.status_code == _BUSY or response.status_code >= _SERVER_ERRORS
                    raise ScorerCallError("status", f"the service says {response.status_code}", is_worth_a_retry=retry)
                return self._read(response, deadline)
        except httpx.TimeoutException as error:
            raise _late(options) from error
        except httpx.ConnectError as error:
            raise ScorerCallError("no_connection", f"{options.endpoint}: {error}", is_worth_a_retry=True) from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            text = f"the connection broke: {type(error).__name__}: {error}"
            raise ScorerCallError("broken_connection", text, is_worth_a_retry=True) from error

    def _read(self, response: httpx.Response, deadline: float) -> bytes:
        """Read a body piece by piece, so that neither a huge nor a trickling one is waited for."""
        parts: list[bytes] = []
        size = 0
        for part in response.iter_raw():
            parts.append(part)
            size += len(part)
            if size > self.options.most_answer_bytes:
                raise ScorerCallError("too_large", f"the answer has more than {self.options.most_answer_bytes:,} bytes")
            _left(deadline, self.options)
        return b"".join(parts)


def _opened(options: ClientOptions) -> httpx.Client:
    try:
        import httpx
    except ImportError as error:
        raise missing_extra("questions over HTTP", "httpx", "sim") from error
    try:
        url = httpx.URL(options.endpoint)
    except httpx.InvalidURL as error:
        raise InputError(f"{options.endpoint!r} is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError(
            f"{options.endpoint!r} is not an address of a service", hint="for example http://127.0.0.1:5000/score"
        )
    if options.timeout_s <= 0 or options.retries < 0 or options.backoff_s < 0:
        raise InputError("a time-out must be above zero, and retries and backoff must not be below it")
    # Answers are read as they come, so they must not be compressed; proxies of the environment are left aside.
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    return httpx.Client(headers=headers, trust_env=False, follow_redirects=False)


def _left(deadline: float, options: ClientOptions) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise _late(options)
    return left


def _late(options: ClientOptions) -> ScorerCallError:
    return ScorerCallError("timed_out", f"no answer within {options.timeout_s:g} s", is_worth_a_retry=True)
