"""Faults between a client and the API server in memory, drawn from a seed; and the death of the client's process.

Each fault is one that a network, a proxy or a server can cause: events of one watch keep their order, and a request
that never reached the server has no effect. The server's log shows afterwards what really happened and what the client
learned.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from random import Random
from typing import NoReturn

import msgspec

from hostler.kube.memory.answers import MemoryAnswer, WatchAnswer
from hostler.kube.memory.calls import LogEntry
from hostler.kube.memory.error_answers import ErrorAnswer, expired
from hostler.kube.memory.server import ApiTransport, hold_request
from hostler.runtime.transport import Request, TransportError
from tests.kube.memory.fault_rates import FaultRates, request_kind

__all__ = ["FaultRates", "FaultyTransport", "Outage"]

_FAILURES = {500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
_NONE = FaultRates()
_LISTED = re.compile(r"(?<=[?&])resourceVersion=(\d+)")


class Outage:
    """A time without a server, for all transports that share this object."""

    def __init__(self) -> None:
        self._until = 0.0
        self._streams: list[WatchAnswer] = []  # in order: a set's would differ from run to run

    @property
    def is_on(self) -> bool:
        """Say whether the server cannot be reached now."""
        return asyncio.get_running_loop().time() < self._until

    def begin(self, seconds: float) -> None:
        """Cut all connections for a while."""
        self._until = max(self._until, asyncio.get_running_loop().time() + seconds)
        for stream in self._streams:
            stream.abort("the server went away")
        self._streams.clear()

    def follow(self, stream: WatchAnswer) -> None:
        """Cut this stream too when an outage begins."""
        self._streams = [known for known in self._streams if not known.is_closed]
        self._streams.append(stream)


class FaultyTransport:
    """Sends through another transport, with faults. ``by_kind`` gives kinds of requests rates of their own."""

    def __init__(
        self,
        inner: ApiTransport,
        rates: FaultRates,
        random: Random,
        *,
        by_kind: Mapping[str, FaultRates] | None = None,
        outage: Outage | None = None,
    ) -> None:
        self._inner = inner
        self._rates = rates
        self._by_kind = dict(by_kind or {})
        self._random = random
        self.outage = outage or Outage()
        self.killed = asyncio.Event()
        self.points = 0  # requests sent and answers received so far: the places where a process can die
        self._deadly_point: int | None = None
        self.played: Counter[str] = Counter()  # which faults happened, so that a test can see that they did

    def calm(self) -> None:
        """Stop all faults: for the end of a test, when everything must settle."""
        self._rates, self._by_kind = _NONE, {}

    def kill(self) -> None:
        """Kill the client's process: none of its further requests reaches the server, and no response arrives."""
        self.killed.set()

    def crash_after(self, points: int) -> None:
        """Kill at a later point; each request, each response and each watched batch counts as one."""
        self._deadly_point = self.points + points

    async def pass_point(self) -> None:
        """Count one point; never return once dead."""
        self.points += 1
        if self._deadly_point is not None and self.points >= self._deadly_point:
            self.kill()
        await self.stay_dead()

    async def stay_dead(self) -> None:
        """Return at once while alive; else wait forever."""
        if self.killed.is_set():
            await asyncio.get_running_loop().create_future()

    def draws(self, rate: float, name: str) -> bool:
        """Say whether a fault happens now."""
        if rate <= 0.0 or self._random.random() >= rate:
            return False
        self.played[name] += 1
        return True

    def random_below(self, limit: float) -> float:
        """Draw a number from 0 to the limit."""
        return self._random.random() * limit

    async def send(self, request: Request) -> MemoryAnswer:
        """Carry a request and its answer, if nothing comes between."""
        await self.pass_point()
        rates = self._by_kind.get(request_kind(request), self._rates)
        if self.draws(rates.outages, "outage"):
            self.outage.begin(self._random.uniform(0.1, rates.outage_s))
        try:
            if self.outage.is_on:
                await self._miss(request, sender_learns=self._random.random() < 0.5)
            answer = await self._watch(request, rates) if request.is_stream else await self._call(request, rates)
        except TransportError:
            await self.stay_dead()
            raise
        await self.pass_point()
        return answer

    async def _miss(self, request: Request, *, sender_learns: bool) -> NoReturn:
        """Lose a request: at once if the sender learns it, else after any time up to its own limit."""
        self._inner.lose(request, sender_learns=sender_learns)
        if sender_learns:
            await asyncio.sleep(0.001)
            raise TransportError("connection refused", may_have_acted=False)
        await self._no_answer(request)

    async def _no_answer(self, request: Request) -> NoReturn:
        """A reset comes at any time; silence lasts until the sender's own limit."""
        is_reset = self._random.random() < 0.5
        await asyncio.sleep(self._random.uniform(0.0, 1.0) if is_reset else request.timeout_s)
        raise TransportError("no answer came", may_have_acted=True)

    async def _call(self, request: Request, rates: FaultRates) -> MemoryAnswer:
        if self.draws(rates.refused, "refused"):
            await self._miss(request, sender_learns=True)
        if self.draws(rates.lost, "lost"):
            await self._miss(request, sender_learns=False)
        refusal = self._refusal(request, rates)
        if refusal is not None:
            return await self._reject(request, refusal)
        answer = await self._deliver(request, rates)
        if self.draws(rates.unanswered, "unanswered"):
            self._forget(answer)
            await self._no_answer(request)
        if self.draws(rates.failed_after, "failed_after"):
            return self._refused(answer.entry, self._failure())
        return answer

    def _refusal(self, request: Request, rates: FaultRates) -> ErrorAnswer | None:
        """Draw an error that the server, or a proxy before it, returns without acting."""
        if self.draws(rates.throttled, "throttled"):
            message = "Too many requests, please try again later."
            return ErrorAnswer(429, "TooManyRequests", message, retry_after_s=rates.retry_after_s)
        if self.draws(rates.failed_before, "failed_before"):
            return self._failure()
        if request.method != "GET" and self.draws(rates.conflicts, "conflict"):
            words = "the object has been modified; please apply your changes to the latest version and try again"
            return ErrorAnswer(409, "Conflict", f"Operation cannot be fulfilled on it: {words}")
        return None

    def _failure(self) -> ErrorAnswer:
        code = self._random.choice(sorted(_FAILURES))
        return ErrorAnswer(code, _FAILURES[code], "the server could not finish the request")

    async def _reject(self, request: Request, refusal: ErrorAnswer) -> MemoryAnswer:
        entry = self._inner.lose(request, sender_learns=False)
        await asyncio.sleep(self._random.uniform(0.0, 0.1))
        return self._refused(entry, refusal)

    def _refused(self, entry: LogEntry | None, refusal: ErrorAnswer) -> MemoryAnswer:
        """Return an error, and log that the sender received it."""
        answer = MemoryAnswer(refusal.code, refusal.body, refusal.headers)
        answer.entry = entry
        if entry is not None:
            entry.told, entry.told_at = refusal.code, self._inner.server.clock.now()
        return answer

    def _forget(self, answer: MemoryAnswer) -> None:
        if answer.entry is not None:
            answer.entry.told = answer.entry.told_at = None

    async def _deliver(self, request: Request, rates: FaultRates) -> MemoryAnswer:
        request = self._stale(request, rates)
        if self.draws(rates.delayed, "delayed"):
            limit = self._inner.server.patience_s(request)
            request = hold_request(request, self._random.uniform(0.0, 1.2) * min(limit, request.timeout_s))
        answer = await self._inner.send(request)
        if self.draws(rates.doubled, "doubled"):
            again = await self._inner.send(request)
            answer, other = (again, answer) if self._random.random() < 0.5 else (answer, again)
            self._forget(other)
        return answer

    def _stale(self, request: Request, rates: FaultRates) -> Request:
        """Let a list without an exact version show any moment since its version: caches may lag."""
        found = _LISTED.search(request.path) if request.method == "GET" else None
        if found is None or "continue=" in request.path or not self.draws(rates.stale, "stale"):
            return request
        store = self._inner.server.store
        version = self._random.randint(max(int(found[1]), store.compacted, 1), store.version)
        path = _LISTED.sub(f"resourceVersion={version}", request.path).replace("=NotOlderThan", "=Exact")
        exact = "" if "resourceVersionMatch=" in path else "&resourceVersionMatch=Exact"
        return msgspec.structs.replace(request, path=path + exact)

    async def _watch(self, request: Request, rates: FaultRates) -> MemoryAnswer:
        if self.draws(rates.refused, "refused"):
            await self._miss(request, sender_learns=True)
        refusal = self._refusal(request, rates)
        if refusal is not None:
            return await self._reject(request, refusal)
        gone = self.draws(rates.expired, "expired")
        if gone and self._random.random() < 0.5:
            return await self._reject(request, expired("too old resource version: 1 (2)"))
        if self.draws(rates.rewound, "rewound"):
            request = self._rewound(request)
        answer = await self._inner.send(request)
        if not isinstance(answer, WatchAnswer):
            return answer
        self.outage.follow(answer)
        return FaultyStream(self, answer, rates, is_expired=gone)

    def _rewound(self, request: Request) -> Request:
        """Start a watch up to ten versions earlier, but not before the existing history."""
        head, mark, rest = request.path.partition("resourceVersion=")
        text, amp, tail = rest.partition("&")
        if not text.isdigit() or text == "0":
            return request
        earliest = max(self._inner.server.store.compacted, 1)
        version = max(earliest, int(text) - self._random.randint(1, 10))
        return msgspec.structs.replace(request, path=f"{head}{mark}{min(version, int(text))}{amp}{tail}")

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()


class FaultyStream(MemoryAnswer):
    """A watch whose batches may be late, torn, or never come."""

    def __init__(self, owner: FaultyTransport, inner: WatchAnswer, rates: FaultRates, *, is_expired: bool) -> None:
        super().__init__(inner.status, b"", inner.headers)
        self.entry = inner.entry
        self._owner = owner
        self._inner = inner
        self._rates = rates
        self._is_expired = is_expired

    async def line_batches(self) -> AsyncIterator[list[bytes]]:
        """Yield batches, as far as they come."""
        owner, rates = self._owner, self._rates
        if self._is_expired:
            yield [b'{"type":"ERROR","object":%s}' % expired("too old resource version: 1 (2)").body]
            return
        async for lines in self._inner.line_batches():
            if owner.draws(rates.stalled, "stalled"):
                await asyncio.get_running_loop().create_future()
            if owner.draws(rates.late, "late"):
                await asyncio.sleep(owner.random_below(rates.late_s))
            kept = [line for line in lines if not (_is_bookmark(line) and owner.draws(rates.unmarked, "unmarked"))]
            is_cut = owner.draws(rates.cut, "cut")
            if is_cut:
                kept = kept[: int(owner.random_below(len(kept)))]
            await owner.stay_dead()
            if kept:
                await owner.pass_point()
                yield kept
            if is_cut:
                raise TransportError("the connection ended within a line", may_have_acted=False)
        await owner.stay_dead()

    async def close(self) -> None:
        """End the stream."""
        await self._inner.close()


def _is_bookmark(line: bytes) -> bool:
    return line.startswith(b'{"type":"BOOKMARK"')
