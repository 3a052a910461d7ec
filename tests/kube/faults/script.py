"""A way to the API server in memory on which a test decides what happens to which request.

``transport.next("binding", unanswered(), about="web")``: the next bind of pod web is carried out, and nobody says so.
What no line of the script is about goes through as it is. A process that is killed sends nothing more.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, NoReturn, TypeAlias

from hostler.kube.api.transport import Request, TransportError
from hostler.kube.memory import ApiServer
from hostler.kube.memory.answers import Answer
from hostler.kube.memory.refusals import Refusal, expired
from hostler.kube.memory.transport import held
from tests.kube.memory.fault_rates import request_kind
from tests.kube.memory.faults import FaultRates, FaultyTransport, Outage

Fault: TypeAlias = Callable[["Script", Request], Awaitable[Answer]]


class Line:
    """What happens to some requests: of a kind, about something, so many times (None: always)."""

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


class Script(FaultyTransport):
    """Carries requests, unless the script says otherwise. Kinds are those of ``fault_rates.request_kind``."""

    def __init__(self, server: ApiServer, *, user: str = "hostler", outage: Outage | None = None) -> None:
        super().__init__(server.transport(user), FaultRates(), Random(1), outage=outage)
        self.server = server
        self.lines: deque[Line] = deque()
        self.thawed = asyncio.Event()
        self.thawed.set()

    def next(self, kind: str, fault: Fault, *, about: str = "", times: int | None = 1) -> Line:
        """Let a fault befall the next requests of a kind; returns the line, which counts how often it was played."""
        line = Line(kind, about, fault, times)
        self.lines.append(line)
        return line

    def freeze(self) -> None:
        """Let the process stand still: what it sends leaves only when it thaws, and answers wait as long."""
        self.thawed.clear()

    def thaw(self) -> None:
        self.thawed.set()

    async def send(self, request: Request) -> Answer:
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

    async def deliver(self, request: Request) -> Answer:
        """Carry a request as if nothing were the matter."""
        return await super().send(request)

    def answer(self, request: Request, refusal: Refusal) -> Answer:
        """Answer in the server's place."""
        entry = self._inner.lose(request, is_told=False)
        return self._refused(entry, refusal)

    def lose(self, request: Request, *, is_told: bool) -> None:
        self._inner.lose(request, is_told=is_told)

    def forget(self, answer: Answer) -> None:
        self._forget(answer)


# -- what can happen to a call -------------------------------------------------------------------------------------


async def _silence(request: Request) -> NoReturn:
    await asyncio.sleep(request.timeout_s)
    raise TransportError("no answer came", may_have_acted=True)


def unanswered() -> Fault:
    """The server acts, and the answer never comes."""

    async def play(script: Script, request: Request) -> Answer:
        script.forget(await script.deliver(request))
        await _silence(request)

    return play


def lost() -> Fault:
    """Nothing arrives, and the sender does not learn it."""

    async def play(script: Script, request: Request) -> Answer:
        script.lose(request, is_told=False)
        await _silence(request)

    return play


def unreachable() -> Fault:
    """No connection."""

    async def play(script: Script, request: Request) -> Answer:
        script.lose(request, is_told=True)
        await asyncio.sleep(0.001)
        raise TransportError("connection refused", may_have_acted=False)

    return play


def refused(code: int, reason: str, message: str, *, retry_after_s: int = 0) -> Fault:
    """The server says no and does nothing."""

    async def play(script: Script, request: Request) -> Answer:
        await asyncio.sleep(0.002)
        return script.answer(request, Refusal(code, reason, message, retry_after_s=retry_after_s))

    return play


def throttled(retry_after_s: int) -> Fault:
    """The server asks to come back later."""
    return refused(429, "TooManyRequests", "Too many requests, please try again later.", retry_after_s=retry_after_s)


def failed_after(code: int) -> Fault:
    """The server acts, and something on the way back turns the answer into an error."""

    async def play(script: Script, request: Request) -> Answer:
        done = await script.deliver(request)
        return script._refused(done.entry, Refusal(code, "InternalError", "the server could not finish the request"))

    return play


def slow(seconds: float) -> Fault:
    """The server takes so long before it acts."""

    async def play(script: Script, request: Request) -> Answer:
        return await script._inner.send(held(request, seconds))

    return play


def just_before(act: Callable[[], Any]) -> Fault:
    """Something happens while the request is on its way."""

    async def play(script: Script, request: Request) -> Answer:
        act()
        return await script.deliver(request)

    return play


# -- what can happen to a watch ------------------------------------------------------------------------------------


class _Stream(Answer):
    """A watch that shows what a function makes of its lines."""

    def __init__(self, inner: Answer, lines: AsyncIterator[list[bytes]]) -> None:
        super().__init__(inner.status, b"", inner.headers)
        self._inner = inner
        self._lines = lines

    def line_batches(self) -> AsyncIterator[list[bytes]]:
        return self._lines

    async def close(self) -> None:
        await self._inner.close()


def _watching(change: Callable[[AsyncIterator[list[bytes]]], AsyncIterator[list[bytes]]]) -> Fault:
    async def play(script: Script, request: Request) -> Answer:
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
    """The connection breaks after so many events."""

    async def cut() -> None:
        raise TransportError("the connection was reset", may_have_acted=False)

    return _watching(lambda batches: _first(events, batches, cut))


def stalled_after(events: int) -> Fault:
    """After so many events nothing comes any more, bookmarks included, and the connection stays open."""

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
    """The version is too old: said by the answer's status, or by an event of the stream."""
    gone = expired("too old resource version: 1 (2)")

    async def play(script: Script, request: Request) -> Answer:
        if not as_event:
            return script.answer(request, gone)

        async def lines() -> AsyncIterator[list[bytes]]:
            yield [b'{"type":"ERROR","object":%s}' % gone.body]

        return _Stream(Answer(200, b""), lines())

    return play
