"""Real guests: they boot, say so, hear the power button, keep to their confinement and to their part of the disk."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from hostler.agent.driver import UnsupportedError
from hostler.agent.drivers.machine.processes import VmUser
from hostler.agent.drivers.qemu.command import size_from_arguments
from hostler.agent.drivers.qemu.driver import QemuDriver
from hostler.agent.drivers.qemu.folder import VmFolder
from hostler.agent.drivers.qemu.machines import find_acceleration
from hostler.agent.drivers.qemu.monitor import ask
from hostler.agent.drivers.qemu.processes import scan
from hostler.agent.messages import Disk, Image, VmNetwork
from tests.agent.drivers.contract import power_of
from tests.agent.drivers.qemu_setup import CHATTY, MIB, QemuSetup, on_hosts
from tests.async_tests import run_with
from tests.recorded_log import recorded_log
from tests.wait import GIVE_UP_S, until


def folder_of(setup, vm="a", name="one"):
    return VmFolder(setup.folder / name / "vms" / vm)


def status_of_process(setup, vm="a"):
    pid = folder_of(setup, vm).read_process().pid
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}


@run_with(on_hosts)
async def test_guest_boots_reads_disk_and_stops_at_power_button(setup, driver, /):
    (setup.images / "hello.raw").write_bytes(b"hello from image".ljust(MIB, b"\0"))
    disk = Disk(size_bytes=8 * MIB, image=Image(path="hello.raw"))
    await driver.create(setup.order("a", disks=(disk,), cpu_count=2, network=VmNetwork(kind="user")))
    await driver.start("a")
    await setup.said("guest: tick 1", "a")
    assert "guest: up with 2 processors" in setup.console("a")
    assert f"guest: a disk of {8 * MIB // 512} sectors begins with 'hello from image'" in setup.console("a")
    await ask(folder_of(setup).qmp, "a", "system_powerdown")
    async with asyncio.timeout(GIVE_UP_S):
        while await power_of(driver, "a") != "stopped":
            await asyncio.sleep(0.1)
    assert "guest: power button" in setup.console("a")
    await driver.start("a")
    assert await power_of(driver, "a") == "running"


@run_with(on_hosts)
async def test_qemu_has_no_privileges_and_its_sandbox_is_on(setup, driver, /):
    await driver.create(setup.order("a"))
    await driver.start("a")
    status = status_of_process(setup)
    assert "0" not in status["Uid"] + status["Gid"] + status["Groups"]
    assert status["CapEff"] == ["0" * 16]
    assert status["Seccomp"] == ["2"]


@run_with(on_hosts)
async def test_the_monitor_is_closed_to_others(setup, driver, /):
    await driver.create(setup.order("a"))
    await driver.start("a")
    folder = folder_of(setup)
    assert folder.run.stat().st_mode & 0o777 == 0o700
    assert folder.disks.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "vm.json").stat().st_mode & 0o777 == 0o600


@run_with(on_hosts, console_bytes=10000)
async def test_a_long_console_is_cut_and_goes_on(setup, driver, /):
    await driver.create(setup.order("a", kernel_arguments=CHATTY))
    await driver.start("a")
    await setup.said("Linux version", "a")
    with folder_of(setup).console.open("ab") as console:
        console.write(b"x" * 100_000 + b"\nsaid before\n")
    await driver.find()
    assert folder_of(setup).console.stat().st_size < 100_000
    before, _, after = setup.console("a").partition("said before")
    assert before
    await until(lambda: len(setup.console("a").partition("said before")[2]) > len(after))
    assert "\0" not in setup.console("a")


@run_with(on_hosts, console_bytes=1000)
async def test_a_link_in_the_place_of_the_console_is_not_followed(setup, driver, /):
    await driver.create(setup.order("a"))
    precious = setup.folder / "precious"
    precious.write_bytes(b"x" * 10_000)
    folder_of(setup).console.symlink_to(precious)
    await driver.find()
    folder_of(setup).console.unlink()
    os.link(precious, folder_of(setup).console)
    await driver.find()
    assert precious.read_bytes() == b"x" * 10_000


@run_with(on_hosts)
async def test_a_guest_cannot_fill_the_disk_through_its_console(setup, driver, /):
    await driver.create(setup.order("a"))
    await driver.start("a")
    pid = folder_of(setup).read_process().pid
    (limit,) = [line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "Max file size" in line]
    assert int(limit.split()[3]) == 64 * MIB
    ignored = int(status_of_process(setup)["SigIgn"][0], 16)
    assert ignored & 1 << 24, "it would die of a file that is too large"


@run_with(on_hosts)
async def test_a_vm_whose_qemu_hangs_counts_as_running_and_can_be_stopped(setup, driver, /):
    await driver.create(setup.order("a"))
    await driver.start("a")
    os.kill(folder_of(setup).read_process().pid, signal.SIGSTOP)
    (found,) = [vm for vm in await driver.find() if vm.is_ours]
    assert found.power == "running"
    assert "does not answer" in found.detail
    await driver.stop("a", grace_s=0)
    assert await power_of(driver, "a") == "stopped"


@run_with(on_hosts)
async def test_a_vm_that_is_paused_cannot_hear_the_button_and_is_not_waited_for(setup, driver, /):
    await driver.create(setup.order("a"))
    await driver.start("a")
    await driver.pause("a")
    async with asyncio.timeout(GIVE_UP_S):
        await driver.stop("a", grace_s=3600)
    assert await power_of(driver, "a") == "stopped"


@run_with(on_hosts)
async def test_a_running_vm_in_its_size_may_be_resized_to_that_and_no_other(setup, driver, /):
    await driver.create(setup.order("a"))
    await driver.start("a")
    await driver.resize("a", setup.order("a", 2))
    with pytest.raises(UnsupportedError):
        await driver.resize("a", setup.order("a", 3, cpu_count=2))
    await driver.stop("a", grace_s=0)
    await driver.resize("a", setup.order("a", 3, cpu_count=2))
    await driver.start("a")
    (seen,) = [one for one in scan() if one.id == folder_of(setup).read_process()]
    assert size_from_arguments(seen.arguments)[0] == 2


@pytest.mark.parametrize("flags", ["fpu sse2", ""])
def test_processors_without_virtualization_are_emulated(flags, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
    runner = VmUser(os.getuid(), os.getgid())
    assert asyncio.run(find_acceleration("false", runner, processors=tmp_path / "cpuinfo")) == "tcg"


@pytest.mark.parametrize(("program", "expected"), [("true", "kvm"), ("false", "tcg")])
def test_processors_that_can_are_tried(program, expected, tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags : fpu vmx sse2\n")
    (tmp_path / "kvm").touch()
    runner = VmUser(os.getuid(), os.getgid())
    found = find_acceleration(program, runner, processors=tmp_path / "cpuinfo", device=tmp_path / "kvm")
    assert asyncio.run(found) == expected


async def test_host_says_how_it_runs_vms_and_warns_if_it_must_emulate(tmp_path):
    setup, told = QemuSetup(tmp_path), list[str]()

    for asked, warned in (("tcg", False), ("auto", True)):
        driver = QemuDriver(setup.settings(acceleration=asked), log=recorded_log(told))
        await driver.open()
        is_emulated = driver.capabilities.acceleration == "tcg"
        assert is_emulated or asked == "auto"
        assert any("emulated" in line for line in told) == (warned and is_emulated)
        await driver.close()
    await setup.clean()
