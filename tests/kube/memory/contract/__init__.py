"""The behavior of every API server as one suite: it runs on the server in memory and on the real one.

Each part is a plain coroutine function over an ``ApiSession``; ``run_part`` runs one over an ``ApiTransport``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hostler.kube.api.client import ApiTransport
from tests.kube.memory.contract.other_kinds import MORE
from tests.kube.memory.contract.pods import PODS
from tests.kube.memory.contract.reads import READS
from tests.kube.memory.contract.session import ApiSession
from tests.kube.memory.contract.writes import WRITES

__all__ = ["CONTRACT", "ApiSession", "run_part"]

CONTRACT: tuple[Callable[[ApiSession], Awaitable[None]], ...] = (*READS, *WRITES, *PODS, *MORE)


async def run_part(part: Callable[[ApiSession], Awaitable[None]], transport: ApiTransport) -> None:
    """Run one part of the contract on a server."""
    talk = ApiSession(transport)
    await talk.begin()
    await part(talk)
