"""Carries requests to the API server in memory, with the time that this takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hostler.kube.api.transport import Request, TransportError
from hostler.kube.memory.answers import Answer
from hostler.kube.memory.calls import LogEntry

if TYPE_CHECKING:
    from hostler.kube.memory.server import ApiServer

__all__ = ["ApiTransport", "HeldRequest"]


_INSTANT_S = 1e-6  # no server does anything in less


class HeldRequest(Request, frozen=True, kw_only=True):
    """A request that the server holds for a while before it acts, as under load; its own time limit still counts."""

    held_s: float


def held(request: Request, seconds: float) -> HeldRequest:
    """Return the request, to be held by the server."""
    fields = {name: getattr(request, name) for name in Request.__struct_fields__}
    return HeldRequest(**fields, held_s=seconds)


class ApiTransport:
    """A user's way to the server. Each leg takes the server's latency."""

    def __init__(self, server: ApiServer, user: str) -> None:
        self.server = server
        self.user = user
        self._is_closed = False

    async def send(self, request: Request) -> Answer:
        """Carry a request there and the answer back."""
        if self._is_closed:
            raise TransportError("the connection is closed", may_have_acted=False)
        server = self.server
        sent = server.clock.now()
        await asyncio.sleep(server.latency_s)
        entry = server.arrive(request, self.user, sent)
        if isinstance(request, HeldRequest):
            answer = await self._held(entry, request)
        elif server.patience_s(request) < _INSTANT_S:
            answer = server.give_up(entry)
        else:
            answer = server.serve(entry, request)
        answer.entry = entry
        await asyncio.sleep(server.latency_s)
        entry.told, entry.told_at = answer.status, server.clock.now()
        return answer

    async def _held(self, entry: LogEntry, request: HeldRequest) -> Answer:
        """Let the server take its time; whoever waits no longer does not stop it."""
        work = asyncio.get_running_loop().create_task(self._work(entry, request), name=f"held request {entry.number}")
        try:
            async with asyncio.timeout(request.timeout_s):
                return await asyncio.shield(work)
        except TimeoutError as error:
            raise TransportError(
                f"no answer to {request.method} {request.path} within {request.timeout_s:g} s", may_have_acted=True
            ) from error

    async def _work(self, entry: LogEntry, request: HeldRequest) -> Answer:
        patience_s = self.server.patience_s(request)
        await asyncio.sleep(min(request.held_s, patience_s))
        if request.held_s >= patience_s:
            return self.server.give_up(entry)
        return self.server.serve(entry, request)

    def lose(self, request: Request, *, is_told: bool) -> LogEntry:
        """Write down a request that never arrives; ``is_told``: its sender learns that."""
        now = self.server.clock.now()
        entry = self.server.note(request, self.user, now)
        if is_told:
            entry.told, entry.told_at = 0, now
        return entry

    async def close(self) -> None:
        """Take no more requests."""
        self._is_closed = True
