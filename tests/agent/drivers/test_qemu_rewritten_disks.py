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

from hostler.agent.drivers.driver import BlockedError, DriverError
from hostler.agent.drivers.qemu_folder import VmFolder
from hostler.agent.drivers.qemu_monitor import session
from hostler.agent.drivers.qemu_processes import scan
from hostler.agent.messages import Disk, Image
from tests.agent.drivers.contract import opened, power_of
from tests.agent.drivers.qemu_lab import MIB, QemuLab
from tests.wait import until

SIZE = 4 * MIB
SHARED = (Disk(size_bytes=SIZE, storage="nfs"),)
STAND_IN = """#!/bin/sh
while [ ! -e {folder}/go ]; do sleep 0.05; done
exec {program} "$@"
"""


class WaitingLab(QemuLab):
    """A lab whose QEMU waits before it opens anything, until it is let go."""

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


def in_a_waiting_lab(scenario):
    async def run():
        lab = WaitingLab(None)
        try:
            await scenario(lab)
        finally:
            lab.let_qemu_go()
            await lab.clean()

    asyncio.run(run())


async def start_after(lab, driver, rewrite):
    """Start the VM, and rewrite a file once the agent has checked it."""
    starting = asyncio.create_task(driver.start("a"))
    await lab.is_waiting()
    rewrite()
    lab.let_qemu_go()
    await starting


async def node_names(lab):
    async with session(VmFolder(lab.folder / "one" / "vms" / "a").qmp, "a") as monitor:
        return {node["node-name"] for node in await monitor.query("query-named-block-nodes", flat=True)}


async def is_paused(driver):
    return await power_of(driver, "a") == "paused"


def test_data_file_named_after_the_check_stops_the_boot():
    """QEMU believes the header and opens the file; the guest never runs on it, and the next check says why."""

    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(lab.order("a", disks=SHARED))
            disk, named = lab.shared / "a-disk0.qcow2", lab.own_file()
            with pytest.raises(BlockedError, match=r"QEMU opened .*run/named"):
                await start_after(lab, driver, lambda: lab.rewrite(disk, "-o", f"data_file={named},data_file_raw=on"))
            assert (await power_of(driver, "a"), lab.processes(), lab.console("a")) == ("stopped", [], "")
            with pytest.raises(BlockedError, match="keeps its data in another file"):
                await driver.start("a")

    in_a_waiting_lab(scenario)


def test_data_file_named_by_an_image_after_the_check_stops_the_boot():
    async def scenario(lab):
        image = lab.images / "base"
        lab.rewrite(image)
        image.chmod(0o644)
        async with opened(lab) as driver:
            await driver.create(lab.order("a", disks=(Disk(size_bytes=SIZE, image=Image(path="base")),)))
            named = lab.own_file()
            with pytest.raises(BlockedError, match=r"QEMU opened .*run/named"):
                await start_after(lab, driver, lambda: lab.rewrite(image, "-o", f"data_file={named},data_file_raw=on"))
            assert (lab.processes(), lab.console("a")) == ([], "")

    in_a_waiting_lab(scenario)


def test_data_file_named_under_a_running_vm_stops_its_landing():
    """The source runs on: only the target reads the header anew."""

    async def scenario(lab):
        async with opened(lab, "one") as one, opened(lab, "two") as two:
            lab.let_qemu_go()
            order = lab.order("a", disks=SHARED)
            await one.create(order)
            await one.start("a")
            landing = await two.await_landing(order)
            named = lab.own_file("two")
            (lab.folder / "stand-in" / "go").unlink()
            sending = asyncio.create_task(one.send("a", landing))
            await until(lambda: len(lab.processes()) == 2, "the target's QEMU is about to run")
            lab.rewrite(lab.shared / "a-disk0.qcow2", "-o", f"data_file={named},data_file_raw=on")
            lab.let_qemu_go()
            with pytest.raises(DriverError, match=r"QEMU opened .*run/named"):
                await sending
            assert await power_of(one, "a") == "running"
            assert len(lab.processes()) == 1

    in_a_waiting_lab(scenario)


def test_backing_file_named_after_the_check_is_not_opened():
    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(lab.order("a", disks=SHARED))
            disk, named = lab.shared / "a-disk0.qcow2", lab.own_file()
            await start_after(lab, driver, lambda: lab.rewrite(disk, "-b", str(named), "-F", "raw"))
            assert await node_names(lab) == {"disk0", "disk0-file"}
            assert await power_of(driver, "a") == "running"

    in_a_waiting_lab(scenario)


@pytest.mark.parametrize("is_rewritten", [True, False], ids=["rewritten", "as-checked"])
def test_vm_whose_agent_died_before_the_second_check_runs_only_after_it(is_rewritten):
    """QEMU waits with a guest that has not begun: to the next agent that is a paused VM, which it resumes."""

    async def scenario(lab):
        async with opened(lab) as driver:
            await driver.create(lab.order("a", disks=SHARED))
            starting = asyncio.create_task(driver.start("a"))
            await lab.is_waiting()
            starting.cancel()
            with suppress(asyncio.CancelledError):
                await starting
        disk, named = lab.shared / "a-disk0.qcow2", lab.own_file()
        if is_rewritten:
            lab.rewrite(disk, "-o", f"data_file={named},data_file_raw=on")
        lab.let_qemu_go()
        await until(lambda: any(one.is_qemu for one in lab.processes()), "QEMU runs")
        async with opened(lab) as driver:
            await until(lambda: is_paused(driver), "QEMU answers, and its guest has not begun")
            if is_rewritten:
                with pytest.raises(BlockedError, match=r"QEMU opened .*run/named"):
                    await driver.resume("a")
                assert (await power_of(driver, "a"), lab.processes(), lab.console("a")) == ("stopped", [], "")
            else:
                await driver.resume("a")
                assert await power_of(driver, "a") == "running"

    in_a_waiting_lab(scenario)
