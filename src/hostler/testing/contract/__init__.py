"""What every API server does, as one suite: run on the one in memory and on the real one.

Each part is a plain coroutine function over a ``Talk``; ``run_part`` runs one over a Transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hostler.kube.api.transport import Transport
from hostler.testing.contract.more import MORE
from hostler.testing.contract.pods import PODS
from hostler.testing.contract.reads import READS
from hostler.testing.contract.talk import Talk
from hostler.testing.contract.writes import WRITES

__all__ = ["CONTRACT", "Talk", "run_part"]

CONTRACT: tuple[Callable[[Talk], Awaitable[None]], ...] = (*READS, *WRITES, *PODS, *MORE)


async def run_part(part: Callable[[Talk], Awaitable[None]], transport: Transport) -> None:
    """Run one part of the contract on a server."""
    talk = Talk(transport)
    await talk.begin()
    await part(talk)
