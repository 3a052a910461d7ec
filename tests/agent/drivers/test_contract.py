"""The contract of drivers, kept by each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hostler.agent.drivers.driver import Driver
from hostler.agent.drivers.fake import FakeDriver, FakeVm, FakeWires
from hostler.agent.messages import Capabilities, Disk, Order
from tests.agent.drivers.contract import CHECKS, Check, Lab, names, run_check
from tests.agent.drivers.qemu_lab import QemuLab


class FakeLab:
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


LABS: dict[str, Callable[[Path], Lab]] = {
    "fake": FakeLab,
    "fake-that-can-nothing": lambda folder: FakeLab(folder, Capabilities()),
    "qemu": QemuLab,
}


@pytest.mark.parametrize("check", CHECKS, ids=names)
@pytest.mark.parametrize("lab", LABS.values(), ids=LABS)
def test_the_driver_keeps_the_contract(lab: Callable[[Path], Lab], check: Check, tmp_path: Path) -> None:
    run_check(check, lab(tmp_path))
