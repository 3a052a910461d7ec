"""The libvirt driver on ``qemu:///system``; ``test_libvirt_system.py`` runs this beside a libvirtd of its own."""

from __future__ import annotations

import asyncio
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.drivers.libvirt.domain_xml import domain_name
from hostler.agent.drivers.libvirt.driver import LibvirtDriver
from hostler.agent.messages import Capabilities, Disk, Order, VmNetwork
from tests.agent.drivers.contract import CHECKS, Check, names, opened, power_of, run_check
from tests.agent.drivers.qemu_setup import real_parts

URI = "qemu:///system"
MIB = 2**20
PLACE = Path("/var/lib/hostler-test")  # in memory, and open to the user of VMs


class SystemLibvirtSetup:
    """Hosts that share one libvirtd, each with a pool of its own for local disks."""

    def __init__(self) -> None:
        shutil.rmtree(PLACE, ignore_errors=True)
        (PLACE / "images").mkdir(parents=True)
        for name in ("kernel", "initrd"):
            shutil.copy(real_parts() / name, PLACE / "images" / name)  # libvirt changes the owner of what it boots
        self.connection: Any = import_module("libvirt").open(URI)
        for pool in ("one", "two", "shared"):
            self._start_pool(pool)

    def driver(self, host: str = "one") -> LibvirtDriver:
        return LibvirtDriver(
            URI,
            pool=host,
            storages={"shared": "shared"},
            image_roots=[PLACE / "images"],
            acceleration="tcg",
            marks_file=PLACE / f"{host}.marks",
        )

    def order(self, vm: str, generation: int = 1) -> Order:
        return Order(
            vm=vm,
            generation=generation,
            power="running",
            memory_bytes=96 * MIB,
            kernel=str(PLACE / "images" / "kernel"),
            initrd=str(PLACE / "images" / "initrd"),
            kernel_arguments="console=ttyS0 quiet panic=-1",
            network=VmNetwork(kind="none"),
        )

    def shared_disk(self) -> Disk:
        return Disk(size_bytes=MIB, storage="shared")

    def has_shared(self, vm: str) -> bool:
        return any((PLACE / "shared").glob(f"{domain_name(vm)}-*"))

    def given(self, vm: str) -> tuple[str, tuple[str, ...]]:
        raise AssertionError("its hosts have neither bridges nor devices")

    async def clean(self) -> None:
        for domain in self.connection.listAllDomains(0):
            if domain.isActive():
                domain.destroy()
            domain.undefine()
        for pool in self.connection.listAllStoragePools(0):
            pool.destroy()
        self.connection.close()

    def _start_pool(self, name: str) -> None:
        (PLACE / name).mkdir()
        target = f"<target><path>{PLACE / name}</path></target>"
        self.connection.storagePoolCreateXML(f"<pool type='dir'><name>{name}</name>{target}</pool>", 0)


@pytest.mark.parametrize("check", CHECKS, ids=names)
def test_driver_keeps_the_contract(check: Check) -> None:
    run_check(check, SystemLibvirtSetup())


def test_watchdog_ends_the_process_of_a_domain() -> None:
    """Libvirt's own pid file leads to the process, SIGKILL ends it, and libvirt then calls the VM stopped."""

    async def scenario(setup: SystemLibvirtSetup) -> None:
        async with opened(setup) as driver:
            assert driver.capabilities == Capabilities(pause=True, disks=True)
            await driver.create(msgspec.structs.replace(setup.order("a"), disks=(Disk(size_bytes=MIB),)))
            await driver.start("a")
            assert [found.power for found in await driver.find_running()] == ["running"]
            assert (await driver.rehearse_halt(["a"])).failed == {}
            assert await power_of(driver, "a") == "running", "a rehearsal ends nothing"
            assert await driver.halt(["a"], polite_s=0.0, reap_s=60.0) == {}
            async with asyncio.timeout(60.0):
                while await power_of(driver, "a") != "stopped":
                    await asyncio.sleep(0.05)

    run_check(scenario, SystemLibvirtSetup())
