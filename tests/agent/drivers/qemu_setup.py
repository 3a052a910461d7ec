"""An environment for the ``qemu`` driver: real QEMU, a guest of kernel and busybox, folders open to all users."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hostler.agent.driver import Driver
from hostler.agent.drivers.machine.processes import end
from hostler.agent.drivers.qemu.driver import QemuDriver
from hostler.agent.drivers.qemu.processes import scan
from hostler.agent.drivers.qemu.settings import QemuSettings
from hostler.agent.messages import Disk, Order, VmNetwork
from tests.agent.drivers.contract import opened
from tests.wait import GIVE_UP_S

ROOT = Path(__file__).resolve().parents[3]
MIB = 2**20
CHATTY = "console=ttyS0 earlyprintk=serial,ttyS0 panic=-1"  # a kernel that says what it does from the beginning


@functools.cache
def real_parts() -> Path:
    """Return the folder of the test guest; where it or QEMU is missing, root gets them and others skip the test."""
    guest = ROOT / "build" / "guest"
    if _missing(guest) and os.getuid() == 0:
        subprocess.run([ROOT / "tools" / "packages"], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    missing = _missing(guest)
    if missing and os.getuid() != 0:
        pytest.skip(f"{missing} missing: run tools/packages, which says what to type")
    assert not missing, f"{missing} missing although tools/packages ran"
    return guest


def _missing(guest: Path) -> str:
    programs = [name for name in ("qemu-system-x86_64", "qemu-img") if shutil.which(name) is None]
    return ", ".join(programs + [f"{guest}/{name}" for name in ("kernel", "initrd") if not (guest / name).exists()])


class QemuSetup:
    """Hosts on this machine, told apart by their folders."""

    def __init__(self, folder: Path, **settings: object) -> None:
        del folder  # pytest's own is closed to the user whom VMs run as
        guest = real_parts()
        self.folder = Path(tempfile.mkdtemp(prefix="hostler-"))
        self.folder.chmod(0o711)
        self.images = self.folder / "images"
        self.images.mkdir(mode=0o755)
        self.images.chmod(0o755)
        for name in ("kernel", "initrd"):
            shutil.copy(guest / name, self.images / name)
        self.shared = self.folder / "shared"
        self.shared.mkdir(mode=0o777)
        self.shared.chmod(0o777)
        self._settings = {"storages": (("nfs", self.shared),), **settings}

    def settings(self, host: str = "one", **changes: object) -> QemuSettings:
        changes = {"user": "nobody" if os.getuid() == 0 else "", **self._settings, **changes}
        return QemuSettings(folder=self.folder / host, image_roots=(self.images,), **changes)

    def driver(self, host: str = "one") -> Driver:
        return QemuDriver(self.settings(host), marks_file=self.folder / f"{host}.marks")

    def order(self, vm: str, generation: int = 1, **changes: object) -> Order:
        values = {
            "power": "running",
            "memory_bytes": 96 * MIB,
            "kernel": str(self.images / "kernel"),
            "initrd": str(self.images / "initrd"),
            "kernel_arguments": "console=ttyS0 quiet panic=-1 tsc=reliable mitigations=off",
            "network": VmNetwork(kind="none"),
        }
        return Order(vm=vm, generation=generation, **{**values, **changes})

    def shared_disk(self) -> Disk:
        return Disk(size_bytes=MIB, storage="nfs")

    def has_shared(self, vm: str) -> bool:
        return any(self.shared.glob(f"{vm}-disk*.qcow2"))

    def given(self, vm: str) -> tuple[str, tuple[str, ...]]:
        raise AssertionError("its hosts have neither bridges nor devices; test_qemu_bridge.py has one with a bridge")

    def console(self, vm: str, host: str = "one") -> str:
        path = self.folder / host / "vms" / vm / "run" / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    async def said(self, text: str, vm: str, host: str = "one") -> None:
        """Wait until a guest has said something."""
        try:
            async with asyncio.timeout(GIVE_UP_S):
                while text not in self.console(vm, host):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{vm} never said {text!r}: {self.console(vm, host)[-2000:]}") from None

    async def clean(self) -> None:
        for one in scan():
            if one.pid_file.startswith(f"{self.folder}/"):
                await end(one.id)
        shutil.rmtree(self.folder)


def in_qemu_setup(scenario: Callable[[QemuSetup], Awaitable[None]], **settings: object) -> None:
    """Run a scenario in a setup of its own and remove all that it leaves."""

    async def run() -> None:
        setup = QemuSetup(Path(), **settings)
        try:
            await scenario(setup)
        finally:
            await setup.clean()

    asyncio.run(run())


def on_hosts(scenario: Callable[..., Awaitable[None]], *names: str, **settings: object) -> None:
    """Run a scenario with the drivers of some hosts, which are open; of one, where none is named."""

    async def with_drivers(setup: QemuSetup) -> None:
        async with AsyncExitStack() as stack:
            drivers = [await stack.enter_async_context(opened(setup, name)) for name in names or ("one",)]
            await scenario(setup, *drivers)

    in_qemu_setup(with_drivers, **settings)
