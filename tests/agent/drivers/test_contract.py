"""The contract of drivers, kept by each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hostler.agent.driver import Driver
from hostler.agent.drivers.fake import FakeDriver, FakeVm, FakeWires
from hostler.agent.messages import Capabilities, Disk, Order
from tests.agent.drivers.contract import CHECKS, Check, DriverSetup, names, run_check
from tests.agent.drivers.qemu_setup import QemuSetup


class FakeSetup:
    def __init__(self, folder: Path, capabilities: Capabilities | None = None) -> None:
        self._folder = folder
        self._options = {} if capabilities is None else {"capabilities": capabilities}
        self._wires = FakeWires()

    def driver(self, host: str = "one") -> Driver:
        return FakeDriver(host, state_file=self._folder / f"{host}.json", wires=self._wires, **self._options)

    def order(self, vm: str, generation: int = 1) -> Order:
        return Order(vm=vm, generation=generation, power="running", memory_bytes=2**28)

    def shared_disk(self) -> Disk:
        return Disk(size_bytes=2**20, storage="shared")

    def has_shared(self, vm: str) -> bool:
        return vm in self._wires.disks

    def given(self, vm: str) -> tuple[str, tuple[str, ...]]:
        vms = msgspec.json.decode((self._folder / "one.json").read_bytes(), type=dict[str, FakeVm])
        return vms[vm].order.network.bridge, vms[vm].order.devices

    async def clean(self) -> None:
        pass


SETUPS: dict[str, Callable[[Path], DriverSetup]] = {
    "fake": FakeSetup,
    "fake-that-can-nothing": lambda folder: FakeSetup(folder, Capabilities()),
    "qemu": QemuSetup,
}


@pytest.mark.parametrize("check", CHECKS, ids=names)
@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_the_driver_keeps_the_contract(setup: Callable[[Path], DriverSetup], check: Check, tmp_path: Path) -> None:
    run_check(check, setup(tmp_path))
