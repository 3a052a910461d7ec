"""A watchdog finds and ends real QEMU processes, whatever state they, their files and their neighbors are in."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from hostler.agent.boot import boottime_ns
from hostler.agent.core.state import Record
from hostler.agent.drivers.machine.processes import read_state
from hostler.agent.drivers.qemu.driver import QemuDriver
from hostler.agent.manifest import FileManifest
from hostler.agent.watchdog.watchdog import LeaseFile, Watchdog, WatchdogLease
from tests.agent.drivers.contract import power_of
from tests.agent.drivers.qemu_setup import on_hosts
from tests.agent.drivers.test_foreign_processes import process_named
from tests.agent.drivers.test_process_halt import Played
from tests.agent.drivers.test_qemu_guest import folder_of
from tests.async_tests import run_with


async def booted(setup, driver, *vms):
    for vm in vms:
        await driver.create(setup.order(vm))
        await driver.start(vm)


def pid_of(setup, vm):
    return folder_of(setup, vm).read_process().pid


def watchdog_of(folder, driver, vms, *, age_s):
    """Return a watchdog whose lease is so old that these VMs are due, or not."""
    manifest, file = FileManifest(folder / "records"), LeaseFile(folder / "lease")

    async def prepared():
        await manifest.load()
        await manifest.save([Record(vm=vm, when_silent="stop") for vm in vms], ())
        now = boottime_ns()
        file.write(WatchdogLease(boot="now", renewed_at=now, stop_after_s=10.0))
        return Watchdog(driver, manifest, file, boot="now", clock=lambda: now + int(age_s * 10**9), find_s=60.0)

    return prepared()


async def stop(dog, vms):
    """Look until all of them were stopped: on a busy machine the kernel may take longer than one look waits."""
    stopped: set[str] = set()
    async with asyncio.timeout(60):
        while stopped < set(vms):
            stopped |= set((await dog.look()).stopped)


@pytest.mark.parametrize("age_s", [10.0, 3600.0], ids=["in time", "after the host was suspended"])
@run_with(on_hosts)
async def test_watchdog_kills_vms_that_stand_still_among_hostile_processes(setup, driver, /, age_s, tmp_path):
    """One QEMU hears no SIGTERM, and a process of another calls itself QEMU with 5,000 digits of memory."""

    await booted(setup, driver, "a", "b")
    os.kill(pid_of(setup, "a"), signal.SIGSTOP)
    with process_named(b"qemu-system-evil", b"-m", b"9" * 5000, b"-name", b"guest=\xff"):
        dog = await watchdog_of(tmp_path, driver, ["a", "b"], age_s=age_s)
        await stop(dog, "ab")
    assert [await power_of(driver, vm) for vm in "ab"] == ["stopped", "stopped"]


@run_with(on_hosts)
async def test_rehearsal_finds_vms_and_leaves_them_running(setup, driver, /, tmp_path):
    await booted(setup, driver, "a")
    dog = await watchdog_of(tmp_path, driver, ["a"], age_s=1.0)
    look = await dog.look()
    assert (look.stopped, look.failed) == ((), ())
    assert look.stoppable > 1
    assert await power_of(driver, "a") == "running"


@pytest.mark.parametrize("damage", ["no note", "damaged note", "damaged record", "no folder"])
@run_with(on_hosts)
async def test_vm_with_missing_or_damaged_files_is_ended_too(setup, driver, /, damage, tmp_path):
    await booted(setup, driver, "a")
    folder = folder_of(setup, "a")
    pid = int(folder.pid.read_text())
    if damage == "no note":
        (folder.path / "process.json").unlink()
    elif damage == "damaged note":
        (folder.path / "process.json").write_bytes(b"{\xff")
    elif damage == "damaged record":
        (folder.path / "vm.json").write_bytes(b"{\xff")
    else:  # as of a file system that is not mounted any more
        folder.path.parent.rename(tmp_path / "vms")
    dog = await watchdog_of(tmp_path, driver, ["a"], age_s=10.0)
    await stop(dog, "a")
    assert (read_state(pid) or "Z")[0] == "Z"


@run_with(on_hosts)
async def test_vm_whose_process_survives_sigkill_is_reported_as_running(setup, driver, /, tmp_path):
    class Stuck:
        """The kernel as it is with a process in the state D: signals change nothing."""

        def open(self, process):
            return Played(survives=True, letter="D")

    await booted(setup, driver, "a")
    watching = QemuDriver(setup.settings(), processes=Stuck())
    await watching.open()
    dog = await watchdog_of(tmp_path, watching, ["a"], age_s=10.0)
    for _ in range(2):
        look = await dog.look()
        assert look.stopped == ()
        assert "survives SIGKILL" in look.failed[0]
    await watching.close()


@run_with(on_hosts)
async def test_landing_that_is_halted_lets_nothing_arrive(setup, driver, /, tmp_path):
    await driver.await_landing(setup.order("a"))
    assert [one.power for one in await driver.find_running()] == ["landing"]
    dog = await watchdog_of(tmp_path, driver, ["a"], age_s=10.0)
    await stop(dog, "a")
    assert [one.power for one in await driver.find_running()] == ["stopped"]
    file = folder_of(setup, "a").read()
    assert file is not None
    assert file.secret == ""
