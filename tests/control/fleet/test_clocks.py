"""A replica whose clock is an hour ahead: hosts are judged as by any other, and nobody is silent or dead for it."""

from __future__ import annotations

import asyncio
import time

import msgspec

from hostler.control.fleet.retention import forget_all
from hostler.control.fleet.times import times_for
from tests.control.fleet.control_plane import SETTINGS, ControlPlane, is_running, run_control_plane, spec
from tests.control.fleet.test_silence import unknown
from tests.wait import until

TIMES = msgspec.structs.replace(times_for(SETTINGS), publish_s=0.05)
HOUR_S = 3600.0
JUMPS_S = 600  # more than the clock of a story ever jumps


async def known(control: ControlPlane, name: str) -> tuple[str, int]:
    """Return how a host is, and its epoch: one that was taken for silent meanwhile had to register again."""
    row = await control.row(name)
    return row.state, row.epoch


async def test_reporting_hosts_are_ready_and_others_become_silent(shared_url):
    async with run_control_plane(shared_url, times=TIMES) as control:
        fast = await control.add_replica(ahead_s=HOUR_S)
        await control.join("here", replica=control.leader)
        there = await control.join("there", replica=control.leader)  # by its clock the token is over
        there.wire.replica = fast
        vm = await control.create_running(spec(host_name="there", when_lost="restart"))
        before = [await known(control, name) for name in ("here", "there")]
        await control.pass_silently(seconds=2 * control.settings.silent_after_s)
        assert [await known(control, name) for name in ("here", "there")] == before
        assert is_running(await control.vm(vm))
        await control.pass_silently(there, seconds=control.settings.silent_after_s / 2)
        assert (await control.row("there")).state == "ready"
        await control.pass_silently(there)
        assert (await control.row("there")).state == "silent"
        assert unknown(await control.vm(vm))
        there.wire.is_cut = False
        await control.until_vm(vm, is_running)
        reached, _ = await control.leader.books.ask(lambda engine: engine.now)
        assert reached < time.time_ns() + JUMPS_S * 10**9, "what it wrote of hosts takes no engine with it"


async def test_while_it_leads_it_judges_nobody_whom_others_hear(shared_url):
    async with run_control_plane(shared_url, times=TIMES) as control:
        first, fast = control.leader, await control.add_replica(ahead_s=HOUR_S)
        await first.stop()
        control.replicas.remove(first)
        await until(lambda: fast.books.is_leader)
        other = await control.add_replica()
        there = await control.join("there", replica=other)
        vm = await control.create_running()
        before = await known(control, "there")
        for _ in range(4):
            # What others told an hour ago, by its clock, is removed: they report it again.
            await forget_all(fast.fleet, asyncio.Event())
            await control.pass_silently(seconds=control.settings.silent_after_s / 2)
        assert await known(control, "there") == before
        assert is_running(await control.vm(vm))
        await control.pass_silently(there)
        assert unknown(await control.vm(vm))
