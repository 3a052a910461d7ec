"""What every API server does, as one suite: run on the one in memory and on the real one.

Each part is a plain coroutine function over a ``Talk``; ``run_part`` runs one over a Transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hostler.kube.api.transport import Transport
from tests.kube.memory.contract.more import MORE
from tests.kube.memory.contract.pods import PODS
from tests.kube.memory.contract.reads import READS
from tests.kube.memory.contract.talk import Talk
from tests.kube.memory.contract.writes import WRITES

__all__ = ["CONTRACT", "Talk", "run_part"]

CONTRACT: tuple[Callable[[Talk], Awaitable[None]], ...] = (*READS, *WRITES, *PODS, *MORE)


async def run_part(part: Callable[[Talk], Awaitable[None]], transport: Transport) -> None:
    """Run one part of the contract on a server."""
    talk = Talk(transport)
    await talk.begin()
    await part(talk)
