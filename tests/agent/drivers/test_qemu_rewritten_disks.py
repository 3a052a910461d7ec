"""Disks that root of another host rewrites after the check, just before QEMU reads them: no guest runs on them.

A stand-in for QEMU's program waits until the test, which plays that host, has rewritten a file; then it becomes
the real QEMU. The file that the new header names is one that even Landlock leaves open: it lies in the VM's own folder.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from contextlib import suppress

import pytest

from hostler.agent.driver import BlockedError, DriverError
from hostler.agent.drivers.qemu.folder import VmFolder
from hostler.agent.drivers.qemu.monitor import session
from hostler.agent.drivers.qemu.processes import scan
from hostler.agent.messages import Disk, Image
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_setup import MIB, QemuSetup
from tests.async_tests import run_with
from tests.wait import until

SIZE = 4 * MIB
SHARED = (Disk(size_bytes=SIZE, storage="nfs"),)
STAND_IN = """#!/bin/sh
while [ ! -e {folder}/go ]; do sleep 0.05; done
exec {program} "$@"
"""


class WaitingSetup(QemuSetup):
    """A setup whose QEMU waits before it opens anything, until it is released."""

    def settings(self, host="one", **changes):
        stand_in = self.folder / "stand-in"
        stand_in.mkdir(mode=0o755, exist_ok=True)
        program = stand_in / "qemu-system-x86_64"
        program.write_text(STAND_IN.format(folder=stand_in, program=shutil.which(program.name)))
        program.chmod(0o755)
        return super().settings(host, program=str(program), **changes)

    def let_qemu_go(self):
        (self.folder / "stand-in" / "go").touch()

    def processes(self):
        return [one for one in scan() if one.pid_file.startswith(f"{self.folder}/")]

    async def is_waiting(self):
        await until(lambda: self.processes(), "QEMU's program is about to run")

    def own_file(self, host="one"):
        """Make a file that the process of the VM may open and write."""
        path = self.folder / host / "vms" / "a" / "run" / "named"
        path.write_bytes(b"of this host alone".ljust(SIZE, b"."))
        path.chmod(0o666)
        return path

    def rewrite(self, path, *options):
        """Write another header, and what belongs to it, into a file that others may have open."""
        made = self.folder / "made"
        make = ["qemu-img", "create", "-q", "-f", "qcow2", *options, made, str(SIZE)]
        subprocess.run(make, check=True, capture_output=True)
        path.write_bytes(made.read_bytes())


def in_waiting_setup(scenario):
    async def run():
        setup = WaitingSetup(None)
        try:
            await scenario(setup)
        finally:
            setup.let_qemu_go()
            await setup.clean()

    asyncio.run(run())


async def start_after(setup, driver, rewrite):
    """Start the VM, and rewrite a file once the agent has checked it."""
    starting = asyncio.create_task(driver.start("a"))
    await setup.is_waiting()
    rewrite()
    setup.let_qemu_go()
    await starting


async def node_names(setup):
    async with session(VmFolder(setup.folder / "one" / "vms" / "a").qmp, "a") as monitor:
        return {node["node-name"] for node in await monitor.query("query-named-block-nodes", flat=True)}


async def is_paused(driver):
    return await power_of(driver, "a") == "paused"


@run_with(in_waiting_setup)
async def test_data_file_named_after_the_check_stops_the_boot(setup, /):
    """QEMU believes the header and opens the file; the guest never runs on it, and the next check says why."""

    async with opened(setup) as driver:
        await driver.create(setup.order("a", disks=SHARED))
        disk, named = setup.shared / "a-disk0.qcow2", setup.own_file()
        with pytest.raises(BlockedError, match=r"QEMU opened .*run/named"):
            await start_after(setup, driver, lambda: setup.rewrite(disk, "-o", f"data_file={named},data_file_raw=on"))
        assert (await power_of(driver, "a"), setup.processes(), setup.console("a")) == ("stopped", [], "")
        with pytest.raises(BlockedError, match="keeps its data in another file"):
            await driver.start("a")


@run_with(in_waiting_setup)
async def test_data_file_named_by_an_image_after_the_check_stops_the_boot(setup, /):
    image = setup.images / "base"
    setup.rewrite(image)
    image.chmod(0o644)
    async with opened(setup) as driver:
        await driver.create(setup.order("a", disks=(Disk(size_bytes=SIZE, image=Image(path="base")),)))
        named = setup.own_file()
        with pytest.raises(BlockedError, match=r"QEMU opened .*run/named"):
            await start_after(setup, driver, lambda: setup.rewrite(image, "-o", f"data_file={named},data_file_raw=on"))
        assert (setup.processes(), setup.console("a")) == ([], "")


@run_with(in_waiting_setup)
async def test_data_file_named_under_a_running_vm_stops_its_landing(setup, /):
    """The source runs on: only the target reads the header again."""

    async with opened(setup, "one") as one, opened(setup, "two") as two:
        setup.let_qemu_go()
        order = setup.order("a", disks=SHARED)
        await one.create(order)
        await one.start("a")
        landing = await two.await_landing(order)
        named = setup.own_file("two")
        (setup.folder / "stand-in" / "go").unlink()
        sending = asyncio.create_task(one.send("a", landing))
        await until(lambda: len(setup.processes()) == 2, "the target's QEMU is about to run")
        setup.rewrite(setup.shared / "a-disk0.qcow2", "-o", f"data_file={named},data_file_raw=on")
        setup.let_qemu_go()
        with pytest.raises(DriverError, match=r"QEMU opened .*run/named"):
            await sending
        assert await power_of(one, "a") == "running"
        assert len(setup.processes()) == 1


@run_with(in_waiting_setup)
async def test_backing_file_named_after_the_check_is_not_opened(setup, /):
    async with opened(setup) as driver:
        await driver.create(setup.order("a", disks=SHARED))
        disk, named = setup.shared / "a-disk0.qcow2", setup.own_file()
        await start_after(setup, driver, lambda: setup.rewrite(disk, "-b", str(named), "-F", "raw"))
        assert await node_names(setup) == {"disk0", "disk0-file"}
        assert await power_of(driver, "a") == "running"


@pytest.mark.parametrize("is_rewritten", [True, False], ids=["rewritten", "as-checked"])
@run_with(in_waiting_setup)
async def test_vm_whose_agent_died_before_the_second_check_runs_only_after_it(setup, /, is_rewritten):
    """QEMU waits with a guest that has not begun: to the next agent that is a paused VM, which it resumes."""

    async with opened(setup) as driver:
        await driver.create(setup.order("a", disks=SHARED))
        starting = asyncio.create_task(driver.start("a"))
        await setup.is_waiting()
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
    disk, named = setup.shared / "a-disk0.qcow2", setup.own_file()
    if is_rewritten:
        setup.rewrite(disk, "-o", f"data_file={named},data_file_raw=on")
    setup.let_qemu_go()
    await until(lambda: any(one.is_qemu for one in setup.processes()), "QEMU runs")
    async with opened(setup) as driver:
        await until(lambda: is_paused(driver), "QEMU answers, and its guest has not begun")
        if is_rewritten:
            with pytest.raises(BlockedError, match=r"QEMU opened .*run/named"):
                await driver.resume("a")
            assert (await power_of(driver, "a"), setup.processes(), setup.console("a")) == ("stopped", [], "")
        else:
            await driver.resume("a")
            assert await power_of(driver, "a") == "running"
