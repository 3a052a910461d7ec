"""A hypervisor that only simulates VMs: for tests, for fleets on one machine, and to study faults.

It has a size, can delay its verbs, and fails on purpose: by verb, by VM, by a seeded chance, before or after the
action. With a state file its VMs outlive the process. Fakes that share a ``FakeWires`` can migrate VMs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec

from hostler.agent.driver import (
    BlockedError,
    DiskMissingError,
    DriverError,
    HaltRehearsal,
    Landing,
    ObservedVm,
    PermanentError,
    StorageUnavailableError,
    UnsupportedError,
)
from hostler.agent.driver import Power as FoundPower
from hostler.agent.messages import Capabilities, HostSize, Order
from hostler.runtime.files import write_file

__all__ = ["DEEDS", "FakeDriver", "FakeVm", "FakeWires", "Fault"]

DEEDS = ("create", "start", "stop", "pause", "resume", "resize", "delete", "await_landing", "send")
"""The verbs that change something."""

_GIB = 2**30
_HALTED_AT_ONCE = 1024
_ALL = Capabilities(pause=True, resize_running=True, live_migration=True, disks=True, bridges=True, devices=True)


class Fault(msgspec.Struct, kw_only=True):
    """An injected failure: of a verb (or any), for a VM (or any), with a chance, so many times (or always)."""

    kind: Literal["transient", "permanent", "blocked"] = "transient"
    verb: str = ""
    vm: str = ""
    chance: float = 1.0
    times: int = -1
    is_after: bool = False  # the deed is done, and then said to have failed


class FakeVm(msgspec.Struct):
    """A VM of the fake; ``runs`` counts how often it was started."""

    order: Order
    power: FoundPower = "stopped"
    is_ours: bool = True
    runs: int = 0
    secret: str = ""


class FakeWires:
    """What connects fake hosts: landings by address, and shared storage.

    ``disks`` says by VM which host claims its disks there, "" after a host released them. ``made`` says how often they
    were created, which is once for a VM that never lost its disks.
    """

    def __init__(self) -> None:
        self.hosts: dict[str, FakeDriver] = {}
        self.disks: dict[str, str] = {}
        self.made: dict[str, int] = {}


class FakeDriver:
    """The driver. ``vms`` and ``log`` are for tests; the log has the actions that changed something.

    ``unmounted`` names unavailable storages, with the reason; "" hides all VMs that do not run.
    """

    name = "fake"

    def __init__(
        self,
        host: str = "fake",
        *,
        size: HostSize | None = None,
        capabilities: Capabilities = _ALL,
        delays_s: Mapping[str, float] = MappingProxyType({}),
        faults: Sequence[Fault] = (),
        seed: int = 0,
        state_file: Path | None = None,
        wires: FakeWires | None = None,
    ) -> None:
        self.host = host
        self.vms: dict[str, FakeVm] = {}
        self.log: list[tuple[str, str]] = []
        self.faults = list(faults)
        self.unmounted: dict[str, str] = {}
        self.strays: set[str] = set()  # VMs that run although their record is gone
        self._size = size or HostSize(cpu_millis=16_000, memory_bytes=64 * _GIB, disk_bytes=1024 * _GIB)
        self._capabilities = msgspec.structs.replace(
            capabilities, live_migration=capabilities.live_migration and wires is not None
        )
        self._delays_s = delays_s
        self._random = random.Random(seed)
        self._state_file = state_file
        self._wires = wires
        self._shared = wires or FakeWires()

    @property
    def capabilities(self) -> Capabilities:
        """Return the configured capabilities; it migrates only along wires."""
        return self._capabilities

    async def open(self) -> None:
        """Read the state file."""
        if self._state_file is not None and self._state_file.exists():
            self.vms = msgspec.json.decode(self._state_file.read_bytes(), type=dict[str, FakeVm])
            for vm in self.vms.values():
                if vm.power not in ("landing", "left"):
                    self._claim(vm.order)
        if self._wires is not None:
            self._wires.hosts[self.host] = self

    async def close(self) -> None:
        """Do nothing: VMs run on."""

    async def size(self) -> HostSize:
        """Return the size that it was given."""
        return self._size

    async def find(self) -> list[ObservedVm]:
        """Return all VMs."""
        await self._pretend("find", "")
        return [
            ObservedVm(
                vm=name,
                power=vm.power,
                is_ours=vm.is_ours,
                cpu_count=vm.order.cpu_count,
                memory_bytes=vm.order.memory_bytes,
                is_stray=name in self.strays or "" in self.unmounted,
            )
            for name, vm in self.vms.items()
            if "" not in self.unmounted or vm.power in ("running", "paused")
        ]

    async def unavailable(self) -> dict[str, str]:
        """Return what was unmounted."""
        return dict(self.unmounted)

    async def create(self, order: Order) -> None:
        """Make a VM, stopped."""
        self._check(order)
        await self._pretend("create", order.vm)
        self._check_storages(order)
        if order.vm not in self.vms:
            self._check_made_before(order)
            self.vms[order.vm] = FakeVm(order=order)
            self._claim(order)
            self._did("create", order.vm)
        self._fail_after("create", order.vm)

    async def start(self, vm: str) -> None:
        """Let it run; one that is paused stays so."""
        await self._pretend("start", vm)
        here = self._vm(vm)
        if here.power == "landing":
            raise PermanentError(f"{vm} waits to land here", hint="delete the landing before you start it")
        if here.power in ("stopped", "left"):
            self._claim(here.order)
            here.power, here.runs = "running", here.runs + 1
            self._did("start", vm)
        self._fail_after("start", vm)

    async def stop(self, vm: str, *, grace_s: float) -> None:
        """End it."""
        await self._pretend("stop", vm)
        here = self._vm(vm)
        if here.power in ("running", "paused"):
            here.power = "stopped"
            if vm in self.strays:
                self.strays.discard(vm)
                del self.vms[vm]
            self._did("stop", vm)
        self._fail_after("stop", vm)

    async def find_running(self) -> list[ObservedVm]:
        """Return all VMs."""
        return await self.find()

    async def rehearse_halt(self, vms: Collection[str]) -> HaltRehearsal:
        """Report success."""
        return HaltRehearsal(most_at_once=_HALTED_AT_ONCE)

    async def halt(self, vms: Collection[str], *, polite_s: float, reap_s: float) -> dict[str, str]:
        """End all of them at once."""

        async def end(vm: str) -> str:
            try:
                await self.stop(vm, grace_s=0.0)
            except DriverError as error:
                return error.message
            return ""

        outcomes = await asyncio.gather(*(end(vm) for vm in vms))
        return {vm: why for vm, why in zip(vms, outcomes, strict=True) if why}

    async def pause(self, vm: str) -> None:
        """Hold it."""
        await self._switch("pause", vm, "running", "paused")

    async def resume(self, vm: str) -> None:
        """Let it run again."""
        await self._switch("resume", vm, "paused", "running")

    async def resize(self, vm: str, order: Order) -> None:
        """Bring it to the order's size."""
        self._check(order)
        await self._pretend("resize", vm)
        here = self._vm(vm)
        if here.power != "stopped" and not self._capabilities.resize_running:
            raise UnsupportedError(f"{vm} runs and this driver resizes stopped VMs only", hint="stop it first")
        here.order = order
        self._did("resize", vm)
        self._fail_after("resize", vm)

    async def delete(self, vm: str, *, keeps_shared: bool = False) -> None:
        """Remove it, whatever it does."""
        await self._pretend("delete", vm)
        here = self.vms.pop(vm, None)
        self.strays.discard(vm)
        if here is not None:
            self._leave_storage(here, keeps_shared=keeps_shared)
            self._did("delete", vm)
        self._fail_after("delete", vm)

    async def await_landing(self, order: Order) -> Landing:
        """Make room for a VM that comes along the wires."""
        self._check_migration()
        self._check(order)
        await self._pretend("await_landing", order.vm)
        if order.vm not in self.vms:
            secret = f"{self._random.getrandbits(64):016x}"
            self.vms[order.vm] = FakeVm(order=order, power="landing", secret=secret)
            self._did("await_landing", order.vm)
        self._fail_after("await_landing", order.vm)
        return Landing(address=f"fake://{self.host}/{order.vm}", secret=self.vms[order.vm].secret)

    async def send(self, vm: str, landing: Landing) -> None:
        """Move a running VM along the wires."""
        self._check_migration()
        await self._pretend("send", vm)
        here = self._vm(vm)
        if here.power != "left":
            if here.power != "running":
                raise PermanentError(f"{vm} does not run, so it cannot be sent", hint="start it first")
            there, target = self._landing(vm, landing)
            there.power, there.runs, here.power = "running", here.runs, "left"
            there.order = msgspec.structs.replace(here.order, migration=None)
            target._claim(there.order)
            target._did("land", vm)
            self._did("send", vm)
        self._fail_after("send", vm)

    async def _switch(self, verb: str, vm: str, before: FoundPower, then: FoundPower) -> None:
        if not self._capabilities.pause:
            raise UnsupportedError("this driver does not pause VMs", hint="stop it instead")
        await self._pretend(verb, vm)
        here = self._vm(vm)
        if here.power == before:
            here.power = then
            self._did(verb, vm)
        elif here.power != then:
            raise PermanentError(f"{vm} is {here.power}: {verb} needs it to be {before}", hint="start it first")
        self._fail_after(verb, vm)

    def _claim(self, order: Order) -> None:
        """Write at shared storage that a VM is here; make its disks there where there are none."""
        if any(disk.storage for disk in order.disks):
            if order.vm not in self._shared.disks:
                self._shared.made[order.vm] = self._shared.made.get(order.vm, 0) + 1
            self._shared.disks[order.vm] = self.host

    def _leave_storage(self, here: FakeVm, *, keeps_shared: bool) -> None:
        """Remove the disks on shared storage that are a VM's of this host, or let go of them."""
        disks, vm = self._shared.disks, here.order.vm
        if keeps_shared:
            if disks.get(vm) == self.host:
                disks[vm] = ""
        elif here.power != "landing" and disks.get(vm) in (("",) if here.power == "left" else ("", self.host)):
            del disks[vm]

    def _landing(self, vm: str, landing: Landing) -> tuple[FakeVm, FakeDriver]:
        host = landing.address.removeprefix("fake://").partition("/")[0]
        target = self._wires.hosts.get(host) if self._wires is not None else None
        there = target.vms.get(vm) if target is not None else None
        if target is None or there is None or there.power != "landing":
            raise DriverError(
                f"no landing waits for {vm} at {landing.address}", hint="the target prepares a landing first"
            )
        if there.secret != landing.secret:
            raise PermanentError(f"the landing at {landing.address} was not opened", hint="its secret is another one")
        return there, target

    def _check(self, order: Order) -> None:
        can = self._capabilities
        if order.disks and not can.disks:
            raise UnsupportedError("this driver knows no disks", hint="order a diskless VM")
        if order.network.kind == "bridge" and not can.bridges:
            raise UnsupportedError("this driver knows no bridges", hint="order a user-mode network")
        if order.devices and not can.devices:
            raise UnsupportedError("this driver gives no devices", hint="order the VM without devices")

    def _check_storages(self, order: Order) -> None:
        for name in sorted({"", *(disk.storage for disk in order.disks)}):
            if name in self.unmounted:
                raise StorageUnavailableError(self.unmounted[name], hint="it is tried again")

    def _check_made_before(self, order: Order) -> None:
        """Refuse to make a disk that was made before; one on shared storage is there while the wires know it."""
        for disk in order.disks if order.has_disks else ():
            if not disk.storage or (self._wires is not None and order.vm not in self._wires.disks):
                raise DiskMissingError(f"a disk of {order.vm} is not on {self.host}", hint="bring it back")

    def _check_migration(self) -> None:
        if not self._capabilities.live_migration:
            raise UnsupportedError("this driver does not migrate VMs", hint="stop the VM, migrate it, and start it")

    def _vm(self, vm: str) -> FakeVm:
        here = self.vms.get(vm)
        if here is None:
            raise DriverError(f"there is no VM {vm} on {self.host}", hint="create it first")
        return here

    def _did(self, verb: str, vm: str) -> None:
        self.log.append((verb, vm))
        if self._state_file is not None:
            write_file(self._state_file, msgspec.json.encode(self.vms))

    async def _pretend(self, verb: str, vm: str) -> None:
        delay_s = self._delays_s.get(verb, 0.0)
        if delay_s:
            await asyncio.sleep(delay_s)
        self._fail(verb, vm, is_after=False)

    def _fail_after(self, verb: str, vm: str) -> None:
        self._fail(verb, vm, is_after=True)

    def _fail(self, verb: str, vm: str, *, is_after: bool) -> None:
        for fault in self.faults:
            if fault.is_after != is_after or fault.verb not in ("", verb) or fault.vm not in ("", vm):
                continue
            if fault.times != 0 and (fault.chance >= 1.0 or self._random.random() < fault.chance):
                fault.times -= 1 if fault.times > 0 else 0
                raise _KINDS[fault.kind](
                    f"{verb} of {vm or 'all'} failed on purpose", hint="a fault that an option requested"
                )


_KINDS: dict[str, type[DriverError]] = {
    "transient": DriverError,
    "permanent": PermanentError,
    "blocked": BlockedError,
}
