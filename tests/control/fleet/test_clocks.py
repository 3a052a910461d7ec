"""A replica whose clock is an hour ahead: hosts are judged as by any other, and nobody is silent or dead for it."""

from __future__ import annotations

import asyncio
import time

import msgspec

from hostler.control.fleet.tidying import tidy_all
from hostler.control.fleet.times import times_for
from tests.control.fleet.scene import SETTINGS, Scene, is_running, scene, spec
from tests.control.fleet.test_silence import unknown
from tests.wait import until

TIMES = msgspec.structs.replace(times_for(SETTINGS), publish_s=0.05)
HOUR_S = 3600.0
JUMPS_S = 600  # more than the clock of a story ever jumps


async def known(world: Scene, name: str) -> tuple[str, int]:
    """Return how a host is, and its epoch: one that was taken for silent meanwhile had to register again."""
    row = await world.row(name)
    return row.state, row.epoch


def test_hosts_that_report_to_it_are_ready_while_they_are_heard_and_silent_when_they_are_not(shared_url):
    async def story() -> None:
        async with scene(shared_url, times=TIMES) as world:
            fast = await world.add_replica(ahead_s=HOUR_S)
            await world.join("here", replica=world.leader)
            there = await world.join("there", replica=world.leader)  # by its clock the token is over
            there.wire.replica = fast
            vm = await world.create_running(spec(host_name="there", when_lost="restart"))
            before = [await known(world, name) for name in ("here", "there")]
            await world.pass_silently(seconds=2 * world.settings.silent_after_s)
            assert [await known(world, name) for name in ("here", "there")] == before
            assert is_running(await world.vm(vm))
            await world.pass_silently(there, seconds=world.settings.silent_after_s / 2)
            assert (await world.row("there")).state == "ready"
            await world.pass_silently(there)
            assert (await world.row("there")).state == "silent"
            assert unknown(await world.vm(vm))
            there.wire.is_cut = False
            await world.until_vm(vm, is_running)
            reached, _ = await world.leader.books.ask(lambda engine: engine.now)
            assert reached < time.time_ns() + JUMPS_S * 10**9, "what it wrote of hosts takes no engine with it"

    asyncio.run(story())


def test_while_it_leads_it_judges_nobody_whom_others_hear(shared_url):
    async def story() -> None:
        async with scene(shared_url, times=TIMES) as world:
            first, fast = world.leader, await world.add_replica(ahead_s=HOUR_S)
            await first.stop()
            world.replicas.remove(first)
            await until(lambda: fast.books.is_leader)
            other = await world.add_replica()
            there = await world.join("there", replica=other)
            vm = await world.create_running()
            before = await known(world, "there")
            for _ in range(4):
                # What others told an hour ago, by its clock, is removed: they tell it anew.
                await tidy_all(fast.fleet, asyncio.Event())
                await world.pass_silently(seconds=world.settings.silent_after_s / 2)
            assert await known(world, "there") == before
            assert is_running(await world.vm(vm))
            await world.pass_silently(there)
            assert unknown(await world.vm(vm))

    asyncio.run(story())
