"""Whose process it is: found again after anything, and never mistaken for another's."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hostler.agent.boot import boot_id
from hostler.agent.driver import DriverError
from hostler.agent.drivers.machine.processes import ProcessId, end, is_alive
from hostler.agent.drivers.qemu.driver import QemuDriver
from hostler.agent.drivers.qemu.folder import VmFolder
from hostler.agent.drivers.qemu.processes import scan
from hostler.agent.drivers.qemu.settings import QemuSettings, check, runner_of
from hostler.errors import InputError, UnavailableError
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_setup import in_qemu_setup
from tests.async_tests import run_with
from tests.wait import until


def folder_of(setup, vm="a"):
    return VmFolder(setup.folder / "one" / "vms" / vm)


@asynccontextmanager
async def sleeper(*arguments):
    """Something of ours that runs on until it is ended."""
    process = await asyncio.create_subprocess_exec("sleep", "600", *arguments)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def started(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@run_with(in_qemu_setup)
async def test_a_vm_whose_process_was_never_noted_is_adopted(setup, /):
    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
        await driver.start("a")
    noted = folder_of(setup).read_process()
    folder_of(setup).write_process(None)  # as if the agent was killed between starting and noting it
    folder_of(setup).pid.unlink()
    async with opened(setup) as driver:
        assert await power_of(driver, "a") == "running"
        assert folder_of(setup).read_process() == noted
        await driver.start("a")
        assert folder_of(setup).read_process() == noted, "it is not started twice"
        await driver.delete("a")
        assert not is_alive(noted)


@pytest.mark.parametrize("wrong", ["started", "boot", "pid"])
@run_with(in_qemu_setup)
async def test_a_process_that_is_not_the_noted_one_is_not_touched(setup, /, wrong):
    async with opened(setup) as driver, sleeper() as other:
        await driver.create(setup.order("a"))
        await driver.start("a")
        real = folder_of(setup).read_process()
        changes = {"started": real.started - 1, "boot": "another", "pid": other.pid}
        folder_of(setup).write_process(msgspec.structs.replace(real, **{wrong: changes[wrong]}))
        found = {vm.vm: vm for vm in await driver.find()}
        assert found["a"].power == "stopped"
        assert not found[f"a@{real.pid}"].is_ours
        await driver.stop("a", grace_s=0)
        await driver.delete("a")
        assert is_alive(real)
        assert other.returncode is None


async def test_a_pid_that_was_given_to_another_process_is_not_signalled():
    async with sleeper() as process:
        await end(ProcessId(process.pid, started(process.pid) - 1, boot_id()))
        await end(ProcessId(process.pid, started(process.pid), "another boot"))
        assert process.returncode is None
        await end(ProcessId(process.pid, started(process.pid), boot_id()))
        assert await process.wait() != 0


def test_a_process_that_waits_to_be_reaped_has_ended():
    process = subprocess.Popen(["sleep", "600"])
    try:
        identity = ProcessId(process.pid, started(process.pid), boot_id())
        assert is_alive(identity)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(identity)
    finally:
        process.kill()
        process.wait()


@run_with(in_qemu_setup)
async def test_foreign_qemu_is_reported_with_its_use_and_left_alone(setup, /):
    command = ["-nodefaults", "-display", "none", "-S", "-m", "16", "-accel", "tcg", "-name", "guest=stray"]
    stray = await asyncio.create_subprocess_exec("qemu-system-x86_64", *command)
    try:
        async with opened(setup) as driver:
            await until(lambda: any(one.guest == "stray" and one.id.pid == stray.pid for one in scan()))
            (found,) = [vm for vm in await driver.find() if vm.vm == f"stray@{stray.pid}"]
            assert (found.is_ours, found.cpu_count, found.memory_bytes) == (False, 1, 16 * 2**20)
        assert stray.returncode is None
    finally:
        stray.kill()
        await stray.wait()


@run_with(in_qemu_setup)
async def test_a_vm_that_died_is_found_stopped_whatever_its_files_say(setup, /):
    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
        await driver.start("a")
        os.kill(folder_of(setup).read_process().pid, 9)
        await until(lambda: not is_alive(folder_of(setup).read_process()))
        assert await power_of(driver, "a") == "stopped"
        await driver.start("a")
        assert await power_of(driver, "a") == "running"


@run_with(in_qemu_setup)
async def test_a_vm_whose_record_is_damaged_is_reported_and_not_touched(setup, /):
    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
        (folder_of(setup).path / "vm.json").write_bytes(b"{")
        (found,) = [vm for vm in await driver.find() if vm.vm == "a"]
        assert not found.is_ours
        for verb in (driver.delete("a"), driver.start("a"), driver.create(setup.order("a"))):
            with pytest.raises(DriverError, match="damaged"):
                await verb
    async with opened(setup) as driver:
        assert folder_of(setup).path.exists()


@run_with(in_qemu_setup)
async def test_what_a_crash_left_half_made_is_no_vm_and_is_cleared_away(setup, /):
    async with opened(setup) as driver:
        await driver.create(setup.order("a"))
    (folder_of(setup).path / "vm.json").unlink()
    async with opened(setup) as driver:
        await driver.find()
        assert not folder_of(setup).path.exists()
        await driver.create(setup.order("a"))
        assert await power_of(driver, "a") == "stopped"


@run_with(in_qemu_setup)
async def test_unfinished_files_of_another_agent_are_not_removed(setup, /):
    async with opened(setup) as maker, opened(setup) as other:
        folder = folder_of(setup)
        async with maker._parts()[0].making():
            folder.path.mkdir()
            await other.find()
            assert folder.path.exists()
        await other.find()
        assert not folder.path.exists()


@run_with(in_qemu_setup)
async def test_a_vm_that_qemu_refuses_says_why(setup, /):
    shutil.copy("/bin/true", setup.images / "initrd.elf")
    async with opened(setup) as driver:
        await driver.create(setup.order("a", kernel=str(setup.images / "initrd.elf")))
        # By how far it came before it was first looked at.
        with pytest.raises(DriverError, match=r"QEMU (ended at once|did not start) for a: .*kernel"):
            await driver.start("a")
        assert await power_of(driver, "a") == "stopped"


@pytest.mark.parametrize("folder", ["relative", "/a,b", "/" + "x" * 60])
def test_a_folder_that_cannot_work_is_refused(folder):
    with pytest.raises(InputError) as caught:
        check(QemuSettings(folder=Path(folder)))
    assert caught.value.hint


@pytest.mark.parametrize("user", ["root", "0", "no-such-user-here", "99999999"])
def test_vms_never_run_as_root_or_as_nobody_knows_who(user):
    with pytest.raises(InputError) as caught:
        runner_of(QemuSettings(folder=Path("/x"), user=user))
    assert caught.value.hint


@run_with(in_qemu_setup)
async def test_a_host_without_qemu_says_what_to_install(setup, /):
    driver = QemuDriver(setup.settings(program="qemu-system-of-nobody"))
    with pytest.raises(UnavailableError, match="not installed") as caught:
        await driver.open()
    assert "apt-get install" in caught.value.hint


@pytest.mark.skipif(os.getuid() != 0, reason="only root must say whom VMs run as")
def test_root_must_say_whom_vms_run_as():
    with pytest.raises(InputError, match="do not run as root"):
        runner_of(QemuSettings(folder=Path("/x")))
