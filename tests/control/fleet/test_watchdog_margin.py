"""A watchdog stops what it must before the control plane even calls its host silent, let alone starts it elsewhere.

Both count from the last report: the watchdog from when it was sent, the control plane from when it was heard. Here both
happen at once, and the control plane always looks first: the worst case for the watchdog.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hostler.agent.manifest import FileManifest
from hostler.agent.watchdog.watchdog import LeaseFile, Watchdog, WatchdogLease
from tests.control.fleet.control_plane import SETTINGS, ControlPlane, is_running, run_control_plane
from tests.control.fleet.replicas_and_hosts import HostWithAgent
from tests.control.fleet.test_silence import RESTART, unknown
from tests.wait import until

SECOND = 1_000_000_000
LONG_S = 120


class Guarded:
    """A host that falls silent, with a real watchdog beside its agent, second by second."""

    def __init__(
        self, control: ControlPlane, host: HostWithAgent, manifest: FileManifest, file: LeaseFile, lease: WatchdogLease
    ) -> None:
        self.control, self.host, self.lease = control, host, lease
        self.silent_s = 0
        self.dog = Watchdog(host.driver, manifest, file, boot=lease.boot, clock=self._now, find_s=60.0)

    def _now(self) -> int:
        return self.lease.renewed_at + self.silent_s * SECOND

    async def state(self) -> str:
        return (await self.control.row(self.host.name)).state

    async def pass_a_second(self) -> None:
        self.control.clock.jump(1.0)
        self.silent_s += 1
        await self.control.duties()

    async def until_taken(self, vm: str) -> None:
        """Let time pass until a VM was taken from the host; the watchdog looks after the control plane did."""
        while (await self.control.vm(vm)).home is not None:
            assert self.silent_s < LONG_S
            await self.dog.look()
            await self.pass_a_second()


async def guarded(control: ControlPlane, folder: Path) -> tuple[Guarded, str]:
    """Return a host that was cut off just now, and a VM there that silence stops."""
    north = await control.join("north", watchdog=True)
    await north.stop()
    manifest, file = FileManifest(folder), LeaseFile(folder / "lease")
    north.manifest, north.lease = manifest, file  # type: ignore[assignment]
    north.start()
    vm = await control.create_running(RESTART)
    await control.duties()
    north.wire.is_cut = True
    await until(lambda: not north.wire.in_flight)
    lease = file.read()
    assert lease is not None
    await control.duties()
    return Guarded(control, north, manifest, file, lease), vm


@pytest.mark.parametrize("stop_after_s", [SETTINGS.stop_after_s, SETTINGS.silent_after_s - 1])
async def test_watchdog_stops_vm_before_host_is_silent_then_it_restarts(url, tmp_path, stop_after_s):
    settings = msgspec.structs.replace(SETTINGS, stop_after_s=stop_after_s)

    async with run_control_plane(url, settings=settings) as control:
        silence, vm = await guarded(control, tmp_path)
        while await silence.state() == "ready":
            assert silence.silent_s < LONG_S
            await silence.dog.look()
            await silence.pass_a_second()
        assert silence.host.power(vm) == "stopped"
        while unknown(await control.vm(vm)):
            assert silence.silent_s < LONG_S
            await silence.pass_a_second()
        await control.join("south")
        await control.until_vm(vm, is_running)
        assert control.runs_on(vm) == ["south"]


@pytest.mark.parametrize("beyond_s", [0, 1, 60])
async def test_stop_age_not_below_silence_stops_and_proves_nothing(url, tmp_path, beyond_s):
    settings = msgspec.structs.replace(SETTINGS, stop_after_s=SETTINGS.silent_after_s + beyond_s)

    async with run_control_plane(url, settings=settings) as control:
        silence, vm = await guarded(control, tmp_path)
        assert silence.lease.stop_after_s == 0
        for _ in range(LONG_S):
            await silence.pass_a_second()
            await silence.dog.look()
        assert await silence.state() == "silent"
        assert unknown(await control.vm(vm))
        assert control.runs_on(vm) == ["north"]
