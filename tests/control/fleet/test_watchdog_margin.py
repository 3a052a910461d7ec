"""A watchdog stops what it must before the control plane even calls its host silent, let alone starts it elsewhere.

Both count from the last report: the watchdog from when it was sent, the control plane from when it was heard. Here both
happen at once, and the control plane always looks first: the worst case for the watchdog.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from hostler.agent.manifest import FileManifest
from hostler.agent.watchdog import Lease, LeaseFile, Watchdog
from tests.control.fleet.scene import SETTINGS, Scene, is_running, scene
from tests.control.fleet.sides import HostSide
from tests.control.fleet.test_silence import RESTART, unknown
from tests.wait import until

SECOND = 1_000_000_000
LONG_S = 120


class Guarded:
    """A host that falls silent, with a real watchdog beside its agent, second by second."""

    def __init__(self, world: Scene, host: HostSide, manifest: FileManifest, file: LeaseFile, lease: Lease) -> None:
        self.world, self.host, self.lease = world, host, lease
        self.silent_s = 0
        self.dog = Watchdog(host.driver, manifest, file, boot=lease.boot, clock=self._now, find_s=60.0)

    def _now(self) -> int:
        return self.lease.renewed_at + self.silent_s * SECOND

    async def state(self) -> str:
        return (await self.world.row(self.host.name)).state

    async def pass_a_second(self) -> None:
        self.world.clock.jump(1.0)
        self.silent_s += 1
        await self.world.duties()

    async def until_taken(self, vm: str) -> None:
        """Let time pass until a VM was taken from the host; the watchdog looks after the control plane did."""
        while (await self.world.vm(vm)).home is not None:
            assert self.silent_s < LONG_S
            await self.dog.look()
            await self.pass_a_second()


async def guarded(world: Scene, folder: Path) -> tuple[Guarded, str]:
    """Return a host that was cut off just now, and a VM there that silence stops."""
    north = await world.join("north", watchdog=True)
    await north.stop()
    manifest, file = FileManifest(folder), LeaseFile(folder / "lease")
    north.manifest, north.lease = manifest, file  # type: ignore[assignment]
    north.start()
    vm = await world.create_running(RESTART)
    await world.duties()
    north.wire.is_cut = True
    await until(lambda: not north.wire.in_flight)
    lease = file.read()
    assert lease is not None
    await world.duties()
    return Guarded(world, north, manifest, file, lease), vm


@pytest.mark.parametrize("stop_after_s", [SETTINGS.stop_after_s, SETTINGS.silent_after_s - 1])
def test_the_vm_is_stopped_before_its_host_counts_as_silent_and_only_then_starts_elsewhere(url, tmp_path, stop_after_s):
    settings = msgspec.structs.replace(SETTINGS, stop_after_s=stop_after_s)

    async def story() -> None:
        async with scene(url, settings=settings) as world:
            silence, vm = await guarded(world, tmp_path)
            while await silence.state() == "ready":
                assert silence.silent_s < LONG_S
                await silence.dog.look()
                await silence.pass_a_second()
            assert silence.host.power(vm) == "stopped"
            while unknown(await world.vm(vm)):
                assert silence.silent_s < LONG_S
                await silence.pass_a_second()
            await world.join("south")
            await world.until_vm(vm, is_running)
            assert world.runs_on(vm) == ["south"]

    asyncio.run(story())


@pytest.mark.parametrize("beyond_s", [0, 1, 60])
def test_a_limit_of_watchdogs_that_is_not_below_silence_stops_nothing_and_proves_nothing(url, tmp_path, beyond_s):
    settings = msgspec.structs.replace(SETTINGS, stop_after_s=SETTINGS.silent_after_s + beyond_s)

    async def story() -> None:
        async with scene(url, settings=settings) as world:
            silence, vm = await guarded(world, tmp_path)
            assert silence.lease.stop_after_s == 0
            for _ in range(LONG_S):
                await silence.pass_a_second()
                await silence.dog.look()
            assert await silence.state() == "silent"
            assert unknown(await world.vm(vm))
            assert world.runs_on(vm) == ["north"]

    asyncio.run(story())
