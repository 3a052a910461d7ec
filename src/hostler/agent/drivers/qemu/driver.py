"""Real VMs: QEMU processes that run as unprivileged users, outlive the agent, and are found again by their folders.

Every VM has a folder that says what it is (``folder``), and while it runs, a process that belongs to that folder
(``processes``). No verb relies on memory, so after a driver was killed at any point, the next one continues.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Literal

import msgspec

from hostler.agent.background_thread import BackgroundThread
from hostler.agent.driver import (
    DriverError,
    HaltRehearsal,
    Landing,
    ObservedVm,
    PermanentError,
    StorageUnavailableError,
    UnsupportedError,
)
from hostler.agent.drivers.machine.capacity import disk_offered, memory_offered
from hostler.agent.drivers.machine.landlock import abi_version
from hostler.agent.drivers.machine.process_halt import ProcessHalt, ProcessTable
from hostler.agent.drivers.machine.processes import end, wait_for_end
from hostler.agent.drivers.machine.storage_marks import FolderMark, StorageMarks
from hostler.agent.drivers.qemu.disks import Disks
from hostler.agent.drivers.qemu.folder import VmFile, VmFolder, images_of
from hostler.agent.drivers.qemu.halt import QemuHalt
from hostler.agent.drivers.qemu.images import ImageCache, read_origin
from hostler.agent.drivers.qemu.inventory import find_vms
from hostler.agent.drivers.qemu.machines import Machines, find_acceleration
from hostler.agent.drivers.qemu.migration import Landings, Sendings
from hostler.agent.drivers.qemu.settings import QemuSettings, check, runner_of, uids_of
from hostler.agent.drivers.qemu.users import VmUsers
from hostler.agent.messages import Capabilities, HostSize, Order
from hostler.errors import InternalError, UnavailableError
from hostler.telemetry.log import QUIET, Log

__all__ = ["QemuDriver"]

_SHARED_USER = (
    "all VMs run as one user, so one that breaks out reaches the others: run the agent as root with --vm-uids"
)
_NO_LANDLOCK = "this kernel has no Landlock: VMs may open every file that their user may; use Linux 5.13 or newer"


class QemuDriver:
    """The driver. Settings are checked when it is opened; ``log`` gets what only this host's operator shall know.

    ``marks_file`` keeps how storages are known again (``storage_marks``); ``has_vms``: its agent has made VMs before.
    """

    name = "qemu"

    def __init__(
        self,
        settings: QemuSettings,
        *,
        marks_file: Path | None = None,
        has_vms: bool = False,
        log: Log = QUIET,
        processes: ProcessTable | None = None,
    ) -> None:
        self._settings = settings
        folders = {"": settings.folder, **dict(settings.storages)}
        places = {name: FolderMark(folder, name) for name, folder in folders.items()}
        self._marks = StorageMarks(marks_file, places, has_vms=has_vms)
        self._has_vms = has_vms
        self._log = log
        self._processes = processes
        self._halt: QemuHalt | None = None
        self._opened: tuple[Machines, Landings, Sendings] | None = None
        self._has_cleared = False
        # Storage may hang. Its own threads do, so that neither the event loop nor the common pool waits for it; the
        # locks make callers queue, since a background thread does one piece of work at a time.
        self._looking, self._look_thread = asyncio.Lock(), BackgroundThread("looking at the folders of VMs")
        self._checking, self._check_thread = asyncio.Lock(), BackgroundThread("looking at storages")
        self._acceleration: Literal["", "kvm", "tcg"] = ""

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities: a running VM is not resized, since its guest need not cooperate."""
        has_bridges = self._opened is not None and self._opened[0].has_bridges
        return Capabilities(
            pause=True, live_migration=True, disks=True, bridges=has_bridges, acceleration=self._acceleration
        )

    async def open(self) -> None:
        """Check the settings, and find QEMU and how it runs here."""
        settings = self._settings
        check(settings)
        runner = runner_of(settings)
        for program in (settings.program, settings.image_program, "setsid", "prlimit"):
            if shutil.which(program) is None:
                raise UnavailableError(
                    f"{program} is not installed",
                    hint="apt-get install --no-install-recommends qemu-system-x86 qemu-utils util-linux",
                )
        folder = settings.folder
        await asyncio.to_thread(self._open_storages)
        acceleration = settings.acceleration
        if acceleration == "auto":
            acceleration = await find_acceleration(settings.program, runner)
            if acceleration == "tcg":
                self._log.warn("VMs are emulated in software, which is slow: this machine cannot run them by KVM")
        self._acceleration = acceleration
        cache = ImageCache(
            folder / "images",
            origins=[read_origin(text) for text in settings.image_origins],
            largest=settings.largest_image_bytes,
            limit=settings.image_cache_bytes,
            lain_over=lambda: images_of(folder / "vms"),
            log=self._log,
        )
        users = VmUsers(runner, uids_of(settings), folder / "vms")
        if not users.are_separate:
            self._log.warn(_SHARED_USER)
        if not abi_version():
            self._log.warn(_NO_LANDLOCK)
        disks = Disks(settings, users, cache, host=self._marks.first(""))
        machines = Machines(settings, users, disks, acceleration)
        self._opened = machines, Landings(machines), Sendings(machines)
        self._halt = QemuHalt(machines, ProcessHalt(self._processes))

    async def close(self) -> None:
        """Release everything but the VMs."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[2].close()
            await opened[1].close()

    async def size(self) -> HostSize:
        """Return what the machine can spare."""
        folder, disk_bytes = self._settings.folder, 0
        if "" not in await self.unavailable():
            async with self._checking:
                disk_bytes = await self._check_thread.run(lambda: disk_offered(folder, folder / "vms"))
        return HostSize(
            cpu_millis=(os.cpu_count() or 1) * 1000,
            memory_bytes=memory_offered(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
            disk_bytes=disk_bytes,
        )

    async def find(self) -> list[ObservedVm]:
        """Scan all folders and all processes of QEMU; finish what an earlier agent could not.

        That is not done in ``open``: a watchdog opens a driver too, and leaves such work to its agent.
        """
        machines, landings, sendings = self._parts()
        is_reachable = "" not in await self.unavailable()
        async with self._looking:
            if is_reachable:
                self._has_cleared = self._has_cleared or await self._look_thread.run(machines.clear)
                landings.listen_again(await self._look_thread.run(landings.promised_port))
            return await find_vms(machines, landings, sendings, self._look_thread, is_reachable=is_reachable)

    async def unavailable(self) -> dict[str, str]:
        """Compare the marks of all storages with those that were seen before."""
        async with self._checking:
            return await self._check_thread.run(self._marks.unavailable)

    async def create(self, order: Order) -> None:
        """Create the folder and the disks. The record is written last, and makes it a VM."""
        machines, _, _ = self._parts()
        folder = machines.folder(order.vm)
        machines.check(order)
        async with machines.lock(order.vm):
            await self._check_storages(order)
            file = folder.read()
            if file is not None and not machines.disks.missing_local(file.order, folder):
                return
            await machines.check_not_running(folder)
            machines.disks.check_made_before(order, folder)
            with machines.disks.laying(order):
                await self._make(machines, order, folder)

    async def start(self, vm: str) -> None:
        """Boot it; a VM that was sent but not taken continues where it stopped."""
        machines, _, sendings = self._parts()
        await sendings.forget(vm)
        async with machines.lock(vm):
            folder, file = machines.known(vm)
            if file.stage == "landing":
                raise PermanentError(f"{vm} waits to land here", hint="delete the landing before you start it")
            process = await machines.process(folder)
            if file.stage == "left":
                is_whole = process is not None and not file.is_taken
                if not is_whole:
                    await machines.end(folder)
                    process = None
                file = msgspec.structs.replace(file, stage="here", sending=None, is_taken=False)
                machines.disks.claim(file.order, folder)
                folder.write(file)
                if is_whole:
                    await machines.ask(folder, "cont")
            if process is None:
                folder.write(msgspec.structs.replace(file, secret="", is_arriving=False))
                await machines.boot(folder, file.order, growing=file.growing)

    async def stop(self, vm: str, *, grace_s: float) -> None:
        """Press the power button, wait, and kill the process if that did not help; landings are closed."""
        machines, landings, _ = self._parts()
        async with machines.lock(vm):
            if await machines.end_stray(vm):
                return
            folder, file = machines.known(vm)
            if file.stage == "landing":
                await landings.shut(folder)
            process = await machines.process(folder)
            if file.stage != "here" or process is None:
                return
            if grace_s > 0 and await _press_power_button(machines, folder) and await wait_for_end(process, grace_s):
                return
            await end(process)

    async def find_running(self) -> list[ObservedVm]:
        """Read only notes and processes, for a watchdog."""
        return await self._watched().find_running()

    async def rehearse_halt(self, vms: Collection[str]) -> HaltRehearsal:
        """Rehearse halting these VMs."""
        return await self._watched().rehearse(vms)

    async def halt(self, vms: Collection[str], *, polite_s: float, reap_s: float) -> dict[str, str]:
        """Halt these VMs together."""
        return await self._watched().halt(vms, polite_s=polite_s, reap_s=reap_s)

    async def pause(self, vm: str) -> None:
        """Stop its processors."""
        await self._switch(vm, "stop", "running", "paused")

    async def resume(self, vm: str) -> None:
        """Let its processors run; first check its files, if an agent was killed before it could."""
        machines, _, _ = self._parts()
        async with machines.lock(vm):
            folder, file = machines.known(vm)
            process = await machines.process(folder)
            if file.stage == "here" and process is not None and await machines.status(folder) == "prelaunch":
                await machines.check_files_opened(folder, file.order, process)
                await machines.ask(folder, "cont")
                return
        await self._switch(vm, "cont", "paused", "running")

    async def resize(self, vm: str, order: Order) -> None:
        """Note the new size of a stopped VM and grow its disks; reject that for a running VM."""
        machines, _, _ = self._parts()
        machines.check(order)
        async with machines.lock(vm):
            folder, file = machines.known(vm)
            if file.stage != "here":
                raise PermanentError(f"{vm} is not here to be resized", hint="resize it where it runs")
            if _size(order) != _size(file.order):
                if await machines.process(folder) is not None:
                    raise UnsupportedError(f"{vm} runs and QEMU resizes stopped VMs only", hint="stop it first")
                machines.disks.check_growth(file.order, order)
                # Noted before, so that a disk which is too large after a crash is known to be the VM's own.
                folder.write(msgspec.structs.replace(file, growing=tuple(disk.size_bytes for disk in order.disks)))
                machines.users.settle(folder, machines.disks.shared_paths(file.order, folder))
                await machines.disks.grow(file.order, order, folder)
            order = msgspec.structs.replace(
                file.order,
                generation=order.generation,
                cpu_count=order.cpu_count,
                cpu_millis=order.cpu_millis,
                memory_bytes=order.memory_bytes,
                disks=tuple(
                    msgspec.structs.replace(old, size_bytes=new.size_bytes)
                    for old, new in zip(file.order.disks, order.disks, strict=True)
                ),
            )
            folder.write(msgspec.structs.replace(file, order=order, growing=()))

    async def delete(self, vm: str, *, keeps_shared: bool = False) -> None:
        """Kill it and remove its folder; disks on shared storage only if this is the VM's last host."""
        machines, _, sendings = self._parts()
        await sendings.forget(vm)
        async with machines.lock(vm):
            folder = machines.folder(vm)
            await self._check_storages()
            file = folder.read()
            if file is None:
                await machines.end_stray(vm)
                return
            await machines.end(folder)
            if keeps_shared:
                machines.disks.let_go(file.order, folder)
            elif file.stage != "landing":
                machines.disks.remove_shared(file.order, folder, is_here=file.stage == "here")
            await asyncio.to_thread(folder.remove)

    async def await_landing(self, order: Order) -> Landing:
        """Prepare to receive a VM."""
        machines, landings, _ = self._parts()
        async with machines.lock(order.vm):
            await self._check_storages(order)
            if machines.folder(order.vm).read() is None:
                await machines.check_not_running(machines.folder(order.vm))
            return await landings.prepare(order)

    async def send(self, vm: str, landing: Landing) -> None:
        """Send a running VM."""
        machines, _, sendings = self._parts()
        async with machines.lock(vm):
            await sendings.send(vm, landing)

    async def _switch(self, vm: str, command: str, before: str, then: str) -> None:
        machines, _, _ = self._parts()
        async with machines.lock(vm):
            folder, file = machines.known(vm)
            is_here = file.stage == "here" and await machines.process(folder) is not None
            status = await machines.status(folder) if is_here else file.stage
            if status == then:
                return
            if status != before:
                raise PermanentError(f"{vm} is {status if is_here else 'not running'}", hint="start it first")
            await machines.ask(folder, command)

    async def _make(self, machines: Machines, order: Order, folder: VmFolder) -> None:
        await machines.check_files(order)
        async with machines.making():
            machines.users.make_folder(folder, machines.disks.shared_paths(order, folder))
            await machines.disks.make(order, folder)
            folder.write(VmFile(order=msgspec.structs.replace(order, migration=None)))

    def _parts(self) -> tuple[Machines, Landings, Sendings]:
        if self._opened is None:
            raise InternalError("the driver was not opened")
        return self._opened

    def _open_storages(self) -> None:
        """Make the folders, and mark what is used for the first time; nothing on storage that is unavailable."""
        folder = self._settings.folder
        if not self._marks.knows("") and not self._has_vms:
            folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._marks.take_up()
        if "" in self._marks.unavailable():
            return
        for path in (folder, folder / "vms", folder / "images"):
            path.mkdir(mode=0o711, exist_ok=True)
            path.chmod(0o711)

    async def _check_storages(self, order: Order | None = None) -> None:
        """Reject work on unavailable storage."""
        unavailable = await self.unavailable()
        for name in sorted({"", *(disk.storage for disk in (order.disks if order is not None else ()))}):
            if name in unavailable:
                raise StorageUnavailableError(unavailable[name], hint="it is tried again")

    def _watched(self) -> QemuHalt:
        if self._halt is None:
            raise InternalError("the driver was not opened")
        return self._halt


async def _press_power_button(machines: Machines, folder: VmFolder) -> bool:
    """Ask a guest to shut down; say whether it can receive that."""
    try:
        if await machines.status(folder) != "running":
            return False
        await machines.ask(folder, "system_powerdown")
    except DriverError:
        return False
    return True


def _size(order: Order) -> tuple[int, int, tuple[int, ...]]:
    return order.cpu_count, order.memory_bytes, tuple(disk.size_bytes for disk in order.disks)
