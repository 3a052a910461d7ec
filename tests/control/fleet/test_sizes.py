"""Sizes that agents tell and nobody can count with: they are not taken, and nothing fails for them."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.agent.messages import REGISTER_PATH, HostSize, Register, Report
from hostler.control.fleet import operating
from hostler.control.fleet.hosts import HostBody, host_of, limit_of, read_body
from hostler.control.fleet.operating import HostWish
from hostler.control.settings import ControlSettings
from hostler.control.store import log
from hostler.control.store.hosts import HostRow
from hostler.model import CPU
from hostler.model.quantities import MAX_AMOUNT
from tests.control.fleet.scene import SETTINGS, SIZE, Scene, scene
from tests.control.fleet.sides import HostSide

FOUR = ((CPU, 4_000_000),)
HUGE = msgspec.structs.replace(SIZE, cpu_millis=MAX_AMOUNT)
LARGER = msgspec.structs.replace(SIZE, cpu_millis=2 * SIZE.cpu_millis)


async def left(world: Scene) -> tuple[HostSide, Register]:
    """Return a host that may give four times its cpu, and the last registration of its agent, which has ended."""
    north = await world.join("north")
    await world.operate(operating.change_host, north, wish=HostWish(overcommit=FOUR), settings=world.settings)
    await north.stop()
    last = [request for request in north.wire.seen if request.path == REGISTER_PATH][-1]
    return north, msgspec.structs.replace(msgspec.json.decode(last.body, type=Register), agent="x", sequence=1)


async def notes(world: Scene, north: HostSide) -> str:
    entries = await world.database.read(lambda connection: log.read_after(connection, 0, 10_000))
    return "\n".join(one.body.decode() for one in entries if one.kind == "note" and one.subject == north.id)


def report(message: Register, epoch: int, sequence: int, size: HostSize) -> Report:
    return Report(boot=message.boot, agent=message.agent, epoch=epoch, sequence=sequence, size=size)


def test_a_report_of_what_nobody_can_count_leaves_the_host_as_large_as_it_was(either_url):
    async def story() -> None:
        async with scene(either_url) as world:
            north, message = await left(world)
            fleet = world.leader.fleet
            epoch = (await fleet.register(north.credential, message)).epoch
            for number in (1, 2):
                await fleet.report(north.credential, report(message, epoch, number, HUGE))
                body = read_body(await world.row("north"))
                assert body.size == SIZE
                assert "2^62" in body.refused_size
            assert (await notes(world, north)).count("not taken") == 1
            await fleet.report(north.credential, report(message, epoch, 3, LARGER))
            body = read_body(await world.row("north"))
            assert (body.size, body.refused_size) == (LARGER, "")

    asyncio.run(story())


def test_a_registration_with_such_a_size_counts_and_is_told_what_the_host_may_give(url):
    async def story() -> None:
        async with scene(url) as world:
            north, message = await left(world)
            answer = await world.leader.fleet.register(north.credential, msgspec.structs.replace(message, size=HUGE))
            row = await world.row("north")
            assert (row.state, row.cpu_millis) == ("ready", SIZE.cpu_millis)
            assert answer.limit is not None
            assert answer.limit.cpu_millis == 4 * SIZE.cpu_millis
            assert (await notes(world, north)).count("not taken") == 1

    asyncio.run(story())


def test_a_host_is_told_its_limit_where_its_size_was_not_taken_though_it_may_give_all_of_it():
    row = HostRow(id="h", name="h", state="ready")
    body = HostBody(size=SIZE, refused_size="too much")
    assert limit_of(row, body, ControlSettings()) == SIZE
    assert limit_of(row, msgspec.structs.replace(body, refused_size=""), ControlSettings()) is None


def test_the_overcommitment_of_the_service_counts_too(url):
    async def story() -> None:
        settings = msgspec.structs.replace(SETTINGS, overcommit=FOUR)
        async with scene(url, settings=settings) as world:
            await world.join("north", size=HUGE)
            row = await world.row("north")
            assert (row.state, row.cpu_millis) == ("ready", 0)
            assert "2^62" in read_body(row).refused_size

    asyncio.run(story())


def test_what_a_host_may_give_can_be_told_whatever_its_numbers_are():
    row = HostRow(id="h", name="h", state="ready")
    body = HostBody(size=HUGE, own_overcommit=FOUR)
    limit = limit_of(row, body, ControlSettings())
    assert limit is None
    assert host_of(row, body).overcommit == FOUR
