"""A transport to the API server in memory on which a test scripts the fate of requests.

``transport.next("binding", unanswered(), about="web")``: the next bind of pod web is executed, and its response is
lost. Requests without a scripted fault pass unchanged. A killed process sends nothing more.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, NoReturn, TypeAlias

from hostler.kube.memory import ApiServer
from hostler.kube.memory.answers import MemoryAnswer
from hostler.kube.memory.error_answers import ErrorAnswer, expired
from hostler.kube.memory.server import hold_request
from hostler.runtime.transport import Request, TransportError
from tests.kube.memory.fault_rates import request_kind
from tests.kube.memory.faults import FaultRates, FaultyTransport, Outage

Fault: TypeAlias = Callable[["ScriptedTransport", Request], Awaitable[MemoryAnswer]]


class ScriptedFault:
    """A fault for some requests: of a kind, about an object, for a number of times (None: always)."""

    def __init__(self, kind: str, about: str, fault: Fault, times: int | None) -> None:
        self.kind = kind
        self.about = about
        self.fault = fault
        self.times = times
        self.played = 0

    @property
    def is_over(self) -> bool:
        return self.times is not None and self.played >= self.times

    def fits(self, request: Request) -> bool:
        words = request.path.replace("?", "/").split("/")
        return request_kind(request) == self.kind and (not self.about or self.about in words)


class ScriptedTransport(FaultyTransport):
    """Carries requests with scripted faults. Kinds are those of ``fault_rates.request_kind``."""

    def __init__(self, server: ApiServer, *, user: str = "hostler", outage: Outage | None = None) -> None:
        super().__init__(server.transport(user), FaultRates(), Random(1), outage=outage)
        self.server = server
        self.lines: deque[ScriptedFault] = deque()
        self.thawed = asyncio.Event()
        self.thawed.set()

    def next(self, kind: str, fault: Fault, *, about: str = "", times: int | None = 1) -> ScriptedFault:
        """Apply a fault to the next requests of a kind; the result counts how often it was played."""
        line = ScriptedFault(kind, about, fault, times)
        self.lines.append(line)
        return line

    def freeze(self) -> None:
        """Pause the process: its requests leave only after ``thaw``, and responses wait as long."""
        self.thawed.clear()

    def thaw(self) -> None:
        self.thawed.set()

    async def send(self, request: Request) -> MemoryAnswer:
        await self.thawed.wait()
        line = next((line for line in self.lines if not line.is_over and line.fits(request)), None)
        if line is None or self.outage.is_on:
            answer = await self.deliver(request)
        else:
            line.played += 1
            await self.pass_point()
            answer = await line.fault(self, request)
            await self.pass_point()
        await self.thawed.wait()
        return answer

    async def deliver(self, request: Request) -> MemoryAnswer:
        """Carry a request without a fault."""
        return await super().send(request)

    def answer(self, request: Request, refusal: ErrorAnswer) -> MemoryAnswer:
        """Answer in place of the server."""
        entry = self._inner.lose(request, sender_learns=False)
        return self._refused(entry, refusal)

    def lose(self, request: Request, *, sender_learns: bool) -> None:
        self._inner.lose(request, sender_learns=sender_learns)

    def forget(self, answer: MemoryAnswer) -> None:
        self._forget(answer)


# -- what can happen to a call -------------------------------------------------------------------------------------


async def _silence(request: Request) -> NoReturn:
    await asyncio.sleep(request.timeout_s)
    raise TransportError("no answer came", may_have_acted=True)


def unanswered() -> Fault:
    """The server acts, and its response never arrives."""

    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        script.forget(await script.deliver(request))
        await _silence(request)

    return play


def lost() -> Fault:
    """The request never arrives, and the sender does not learn it."""

    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        script.lose(request, sender_learns=False)
        await _silence(request)

    return play


def unreachable() -> Fault:
    """No connection."""

    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        script.lose(request, sender_learns=True)
        await asyncio.sleep(0.001)
        raise TransportError("connection refused", may_have_acted=False)

    return play


def refused(code: int, reason: str, message: str, *, retry_after_s: int = 0) -> Fault:
    """The server rejects the request and does nothing."""

    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        await asyncio.sleep(0.002)
        return script.answer(request, ErrorAnswer(code, reason, message, retry_after_s=retry_after_s))

    return play


def throttled(retry_after_s: int) -> Fault:
    """The server asks the sender to retry later."""
    return refused(429, "TooManyRequests", "Too many requests, please try again later.", retry_after_s=retry_after_s)


def failed_after(code: int) -> Fault:
    """The server acts, and something on the way back turns the response into an error."""

    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        done = await script.deliver(request)
        return script._refused(
            done.entry, ErrorAnswer(code, "InternalError", "the server could not finish the request")
        )

    return play


def slow(seconds: float) -> Fault:
    """The server waits this long before it acts."""

    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        return await script._inner.send(hold_request(request, seconds))

    return play


def just_before(act: Callable[[], Any]) -> Fault:
    """Do something while the request is on its way."""

    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        act()
        return await script.deliver(request)

    return play


# -- what can happen to a watch ------------------------------------------------------------------------------------


class _Stream(MemoryAnswer):
    """A watch that shows what a function makes of its lines."""

    def __init__(self, inner: MemoryAnswer, lines: AsyncIterator[list[bytes]]) -> None:
        super().__init__(inner.status, b"", inner.headers)
        self._inner = inner
        self._lines = lines

    def line_batches(self) -> AsyncIterator[list[bytes]]:
        return self._lines

    async def close(self) -> None:
        await self._inner.close()


def _watching(change: Callable[[AsyncIterator[list[bytes]]], AsyncIterator[list[bytes]]]) -> Fault:
    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        inner = await script.deliver(request)
        return _Stream(inner, change(inner.line_batches()))

    return play


def _first(events: int, batches: AsyncIterator[list[bytes]], after: Callable[[], Awaitable[None]]) -> Any:
    async def lines() -> AsyncIterator[list[bytes]]:
        left = events
        if left:
            async for batch in batches:
                yield batch[:left]
                left -= len(batch)
                if left <= 0:
                    break
        await after()

    return lines()


def cut_after(events: int) -> Fault:
    """The connection breaks after this many events."""

    async def cut() -> None:
        raise TransportError("the connection was reset", may_have_acted=False)

    return _watching(lambda batches: _first(events, batches, cut))


def stalled_after(events: int) -> Fault:
    """After this many events nothing arrives any more, not even bookmarks, and the connection stays open."""

    async def stall() -> None:
        await asyncio.get_running_loop().create_future()

    return _watching(lambda batches: _first(events, batches, stall))


def doubled() -> Fault:
    """Every event comes twice, and then all that came so far once more in the wrong order."""

    async def lines(batches: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
        seen: list[bytes] = []
        async for batch in batches:
            seen += batch
            yield [line for line in batch for _ in range(2)]
            yield [line for line in reversed(seen) if not line.startswith(b'{"type":"BOOKMARK"')] or batch

    return _watching(lines)


def expired_watch(*, as_event: bool) -> Fault:
    """The version is too old, reported by the status of the response or by an event of the stream."""
    gone = expired("too old resource version: 1 (2)")

    async def play(script: ScriptedTransport, request: Request) -> MemoryAnswer:
        if not as_event:
            return script.answer(request, gone)

        async def lines() -> AsyncIterator[list[bytes]]:
            yield [b'{"type":"ERROR","object":%s}' % gone.body]

        return _Stream(MemoryAnswer(200, b""), lines())

    return play
