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
from hostler.agent.drivers.driver import DriverError
from hostler.agent.drivers.qemu import QemuDriver
from hostler.agent.drivers.qemu_folder import ProcessId, VmFolder
from hostler.agent.drivers.qemu_processes import end, is_alive, scan
from hostler.agent.drivers.qemu_settings import QemuSettings, check, runner_of
from hostler.errors import InputError, UnavailableError
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_lab import in_a_lab
from tests.wait import until


def folder_of(lab, vm="a"):
    return VmFolder(lab.folder / "one" / "vms" / vm)


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


def test_a_vm_whose_process_was_never_noted_is_adopted():
    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(lab.order("a"))
            await driver.start("a")
        noted = folder_of(lab).read_process()
        folder_of(lab).write_process(None)  # as if the agent was killed between starting and noting it
        folder_of(lab).pid.unlink()
        async with opened(lab) as driver:
            assert await power_of(driver, "a") == "running"
            assert folder_of(lab).read_process() == noted
            await driver.start("a")
            assert folder_of(lab).read_process() == noted, "it is not started twice"
            await driver.delete("a")
            assert not is_alive(noted)

    in_a_lab(scenario)


@pytest.mark.parametrize("wrong", ["started", "boot", "pid"])
def test_a_process_that_is_not_the_noted_one_is_not_touched(wrong):
    async def scenario(lab):
        async with opened(lab) as driver, sleeper() as other:
            await driver.create(lab.order("a"))
            await driver.start("a")
            real = folder_of(lab).read_process()
            changes = {"started": real.started - 1, "boot": "another", "pid": other.pid}
            folder_of(lab).write_process(msgspec.structs.replace(real, **{wrong: changes[wrong]}))
            found = {vm.vm: vm for vm in await driver.find()}
            assert found["a"].power == "stopped"
            assert not found[f"a@{real.pid}"].is_ours
            await driver.stop("a", grace_s=0)
            await driver.delete("a")
            assert is_alive(real)
            assert other.returncode is None

    in_a_lab(scenario)


def test_a_pid_that_was_given_to_another_process_is_not_signalled():
    async def scenario():
        async with sleeper() as process:
            await end(ProcessId(process.pid, started(process.pid) - 1, boot_id()))
            await end(ProcessId(process.pid, started(process.pid), "another boot"))
            assert process.returncode is None
            await end(ProcessId(process.pid, started(process.pid), boot_id()))
            assert await process.wait() != 0

    asyncio.run(scenario())


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


def test_somebody_elses_qemu_is_told_with_what_it_takes_and_left_alone():
    async def scenario(lab):
        command = ["-nodefaults", "-display", "none", "-S", "-m", "16", "-accel", "tcg", "-name", "guest=stray"]
        stray = await asyncio.create_subprocess_exec("qemu-system-x86_64", *command)
        try:
            async with opened(lab) as driver:
                await until(lambda: any(one.guest == "stray" and one.id.pid == stray.pid for one in scan()))
                (found,) = [vm for vm in await driver.find() if vm.vm == f"stray@{stray.pid}"]
                assert (found.is_ours, found.cpu_count, found.memory_bytes) == (False, 1, 16 * 2**20)
            assert stray.returncode is None
        finally:
            stray.kill()
            await stray.wait()

    in_a_lab(scenario)


def test_a_vm_that_died_is_found_stopped_whatever_its_files_say():
    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(lab.order("a"))
            await driver.start("a")
            os.kill(folder_of(lab).read_process().pid, 9)
            await until(lambda: not is_alive(folder_of(lab).read_process()))
            assert await power_of(driver, "a") == "stopped"
            await driver.start("a")
            assert await power_of(driver, "a") == "running"

    in_a_lab(scenario)


def test_a_vm_whose_record_is_damaged_is_told_and_not_touched():
    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(lab.order("a"))
            (folder_of(lab).path / "vm.json").write_bytes(b"{")
            (found,) = [vm for vm in await driver.find() if vm.vm == "a"]
            assert not found.is_ours
            for verb in (driver.delete("a"), driver.start("a"), driver.create(lab.order("a"))):
                with pytest.raises(DriverError, match="damaged"):
                    await verb
        async with opened(lab) as driver:
            assert folder_of(lab).path.exists()

    in_a_lab(scenario)


def test_what_a_crash_left_half_made_is_no_vm_and_is_cleared_away():
    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(lab.order("a"))
        (folder_of(lab).path / "vm.json").unlink()
        async with opened(lab) as driver:
            await driver.find()
            assert not folder_of(lab).path.exists()
            await driver.create(lab.order("a"))
            assert await power_of(driver, "a") == "stopped"

    in_a_lab(scenario)


def test_what_somebody_else_is_making_is_not_cleared_away():
    async def scenario(lab):
        async with opened(lab) as maker, opened(lab) as other:
            folder = folder_of(lab)
            async with maker._parts()[0].making():
                folder.path.mkdir()
                await other.find()
                assert folder.path.exists()
            await other.find()
            assert not folder.path.exists()

    in_a_lab(scenario)


def test_a_vm_that_qemu_refuses_says_why():
    async def scenario(lab):
        shutil.copy("/bin/true", lab.images / "initrd.elf")
        async with opened(lab) as driver:
            await driver.create(lab.order("a", kernel=str(lab.images / "initrd.elf")))
            # By how far it came before it was first looked at.
            with pytest.raises(DriverError, match=r"QEMU (ended at once|did not start) for a: .*kernel"):
                await driver.start("a")
            assert await power_of(driver, "a") == "stopped"

    in_a_lab(scenario)


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


def test_a_host_without_qemu_says_what_to_install():
    async def scenario(lab):
        driver = QemuDriver(lab.settings(program="qemu-system-of-nobody"))
        with pytest.raises(UnavailableError, match="not installed") as caught:
            await driver.open()
        assert "apt-get install" in caught.value.hint

    in_a_lab(scenario)


@pytest.mark.skipif(os.getuid() != 0, reason="only root must say whom VMs run as")
def test_root_must_say_whom_vms_run_as():
    with pytest.raises(InputError, match="do not run as root"):
        runner_of(QemuSettings(folder=Path("/x")))
