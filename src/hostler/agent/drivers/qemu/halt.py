"""Finds and ends the VMs of a host for its watchdog, from what was noted and from /proc alone; used by ``driver``.

The agent's own look asks every QEMU how it is, waits seconds for one that hangs, and finishes what an earlier agent
began. A watchdog must do none of that. It reads which process each VM was noted to be, then goes through all processes
for VMs without a note or without a folder. What it saw last it keeps in memory: to end VMs it needs no disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec

from hostler.agent.background_thread import BackgroundThread
from hostler.agent.driver import DriverError, HaltRehearsal, ObservedVm, Power
from hostler.agent.drivers.machine.process_halt import ProcessHalt
from hostler.agent.drivers.machine.processes import ProcessId, is_alive
from hostler.agent.drivers.qemu.folder import VmFile, VmFolder, vm_folders
from hostler.agent.drivers.qemu.machines import Machines
from hostler.agent.drivers.qemu.processes import scan, vm_of

__all__ = ["QemuHalt"]


class QemuHalt:
    """The VMs of one host, as its watchdog sees them."""

    def __init__(self, machines: Machines, processes: ProcessHalt) -> None:
        self._machines = machines
        self._processes = processes
        self._running: dict[str, ProcessId] = {}
        self._landings: dict[str, VmFolder] = {}
        self._unsure: dict[str, str] = {}  # VM to why it is not known whether it runs
        self._reading = BackgroundThread("reading the files of VMs")
        self._scanning = BackgroundThread("looking at processes")
        self._rehearsing = BackgroundThread("trying out signals")

    async def find_running(self) -> list[ObservedVm]:
        """Return every VM, and remember their processes."""
        noted = await self._reading.run(self._read_notes)
        found = {look.folder.vm: look.found for look in noted if look.found is not None}
        # Kept before all processes are gone through: that waits for a process which hangs in the kernel.
        self._running = {look.folder.vm: look.process for look in noted if look.process is not None}
        self._landings = {look.folder.vm: look.folder for look in noted if look.is_landing}
        self._unsure = {look.folder.vm: look.found.detail for look in noted if look.is_unsure and look.found}
        left = {vm for vm, one in found.items() if one.power == "left"}
        for vm, process in (await self._scanning.run(self._scan)).items():
            if vm not in self._running and vm not in left:
                self._running[vm] = process
                found[vm] = ObservedVm(vm=vm, power="running")
        return list(found.values())

    async def rehearse(self, vms: Collection[str]) -> HaltRehearsal:
        """Rehearse halting these VMs."""
        return await self._rehearsing.run(lambda: self._rehearse(vms))

    def _rehearse(self, vms: Collection[str]) -> HaltRehearsal:
        failed = self._processes.rehearse({vm: self._running[vm] for vm in vms if vm in self._running})
        failed |= {vm: why for vm, why in self._unsure.items() if vm in vms and vm not in self._running}
        return HaltRehearsal(failed=failed, most_at_once=self._processes.most_at_once())

    async def halt(self, vms: Collection[str], *, polite_s: float, reap_s: float) -> dict[str, str]:
        """Halt these VMs together, and close all landings."""
        shutting = asyncio.gather(*(self._shut(vm) for vm in vms if vm in self._landings))
        running = {vm: self._running[vm] for vm in vms if vm in self._running}
        failed = await self._processes.end_all(running, polite_s=polite_s, reap_s=reap_s)
        for vm, why in await shutting:
            if why:
                failed[vm] = why
        return failed | {vm: why for vm, why in self._unsure.items() if vm in vms and vm not in running}

    async def _shut(self, vm: str) -> tuple[str, str]:
        """Close a landing; return why that failed."""
        folder = self._landings[vm]

        def shut() -> None:
            file = folder.read()
            if file is not None and file.stage == "landing":
                folder.write(msgspec.structs.replace(file, secret=""))

        try:
            await asyncio.to_thread(shut)
        except (DriverError, OSError) as error:
            return vm, f"the landing of {vm} cannot be shut: {error}"
        return vm, ""

    def _read_notes(self) -> list[_Look]:
        """Read what is noted of VMs; nothing if their file system is not mounted."""
        vms = self._machines.vms
        return [_look(folder) for folder in vm_folders(vms)] if vms.is_dir() else []

    def _scan(self) -> dict[str, ProcessId]:
        """Find processes of VMs by their command lines, if they were not noted or their folder is gone.

        Processes of other users are not read: a process can make such a read hang.
        """
        vms, users = self._machines.vms, self._machines.users
        found = {one.id: vm_of(one, vms, users.runner) for one in scan(users.uids_in_use())}
        return {vm: process for process, vm in found.items() if vm and is_alive(process)}


class _Look(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of one VM say."""

    folder: VmFolder
    found: ObservedVm | None = None  # None: there is no VM
    process: ProcessId | None = None
    is_landing: bool = False
    is_unsure: bool = False


def _look(folder: VmFolder) -> _Look:
    """Read the files of one VM. A VM whose files cannot be read may run, and must not hide the others."""
    try:
        noted = folder.read_process()
        process = noted if noted is not None and is_alive(noted) else None
    except (OSError, ValueError) as error:
        return _unsure(folder, None, f"it is not known which process {folder.vm} is: {error}")
    try:
        file = folder.read()
    except (DriverError, OSError, ValueError) as error:
        return _unsure(folder, process, f"the files of {folder.vm} cannot be read: {error}")
    if file is None:
        return _Look(folder=folder)
    return _Look(
        folder=folder,
        found=ObservedVm(vm=folder.vm, power=_power(file, process)),
        process=process,
        is_landing=file.stage == "landing",
    )


def _unsure(folder: VmFolder, process: ProcessId | None, why: str) -> _Look:
    found = ObservedVm(vm=folder.vm, power="running", detail=why)
    return _Look(folder=folder, found=found, process=process, is_unsure=process is None)


def _power(file: VmFile, process: ProcessId | None) -> Power:
    if file.stage == "left":
        return "left"
    if file.stage == "landing":
        return "landing" if file.secret or process is not None else "stopped"
    return "stopped" if process is None else "running"
