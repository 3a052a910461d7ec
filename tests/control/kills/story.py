"""A story of deaths: people wish for things all the time, something is killed, comes back, and everything is judged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from hostler.agent.messages import HostSize
from hostler.control.books.follower import Follower
from hostler.control.store.history.log import StoredCheckpoint, StoredEntry
from hostler.engine import Engine
from tests.control.kills.consistency_checks import Found, check_books, check_decisions, check_vms
from tests.control.storms.clients import ServiceClients, connect_clients
from tests.control.storms.database_audit import DatabaseReader
from tests.control.storms.service import ServiceProcess

__all__ = ["VERBS", "check_checkpoint", "check_saved", "rounds", "run_story"]

VERBS = ("delete", "delete", "stop", "start", "restart", "migrate", "pause", "resume", "resize")
_WISHERS = 12
_LONGEST_S = 0.6
_ENOUGH = 10  # deaths in whose time every verb is wished for and taken


async def rounds(
    services: Sequence[ServiceProcess],
    found: Callable[[], Found],
    kill: Callable[[int, random.Random], Awaitable[None]],
    *,
    count: int,
    seed: int,
    most: int,
    size: HostSize,
    verbs: Sequence[str] = VERBS,
) -> None:
    """Live through so many deaths. ``kill`` kills something and returns when it is back."""
    dice = random.Random(seed)

    def judge(told: list[dict[str, Any]]) -> None:
        check_vms(people, told, found())
        with DatabaseReader(services[0].url) as reader:
            check_books(reader, told, size)

    async with connect_clients(services, seed) as people:
        for number in range(count):
            try:
                await _one_round(people, kill, number, dice, most, verbs)
                await people.judged(judge)
            except BaseException:
                print(f"seed {seed}, round {number}")
                for service in services:
                    print(service.log.read_text()[-3000:])
                raise
        assert people.answers > 5 * count
        if count >= _ENOUGH:
            assert set(verbs) <= {verb for verb, taken in people.taken.items() if taken}, people.taken
        with DatabaseReader(services[0].url) as reader:
            await check_decisions(people, reader, seed)
        print(f"{count} deaths, {people.answers} answers, {people.unanswered} without")


async def _one_round(
    people: ServiceClients,
    kill: Callable[[int, random.Random], Awaitable[None]],
    number: int,
    dice: random.Random,
    most: int,
    verbs: Sequence[str],
) -> None:
    stopping = asyncio.Event()
    wishers = [asyncio.create_task(people.live(stopping, verbs, most)) for _ in range(_WISHERS)]
    try:
        await asyncio.sleep(_LONGEST_S * dice.random())
        await kill(number, dice)
    finally:
        stopping.set()
        await asyncio.gather(*wishers)
    await people.resolve()


def check_checkpoint(url: str) -> None:
    """Compare the state that a service saved at its end with that of a twin that lived through the whole log."""
    with DatabaseReader(url) as reader:
        saved, entries = reader.checkpoint(), reader.entries()
    assert saved is not None
    check_saved(saved, entries)


def check_saved(saved: StoredCheckpoint, entries: Sequence[StoredEntry]) -> None:
    """Compare saved state with a twin that read as far. Facts that waited for a step then wait in the twin as well."""
    twin = Follower.begin()
    done = Follower.restore(saved).state().done
    twin.read([entry for entry in entries if entry.seq <= done])
    assert not twin.refusals
    assert twin.checkpoint(saved.at_ns).seq == saved.seq
    lived, kept = _state_of(twin.engine), _state_of(Follower.restore(saved).engine)
    differing = {key: (lived.get(key), kept.get(key)) for key in lived | kept if lived.get(key) != kept.get(key)}
    assert not differing, f"at entry {saved.seq}, read to {twin.seq}: the twin and what was saved differ in {differing}"


def _state_of(engine: Engine) -> dict[str, Any]:
    """Leave out deadlines that mean nothing any more: an engine forgets them when it is asked what is due next."""
    engine.state.deadlines = sorted(one for one in engine.state.deadlines if engine._is_live(*one))
    found: dict[str, Any] = msgspec.msgpack.decode(engine.checkpoint())
    return found


def run_story(story: Coroutine[None, None, None], services: Sequence[ServiceProcess]) -> None:
    """Run a story to its end; then the state that is saved at a clean end must be that of a twin."""
    try:
        asyncio.run(story)
        for service in services:
            service.stop()
        check_checkpoint(services[0].url)
    finally:
        for service in services:
            service.kill()
