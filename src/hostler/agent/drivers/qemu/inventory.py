"""Which VMs are on a host, and how they are: folders and processes brought together.

A QEMU process without a folder of ours is foreign: it is reported, with the room that it takes, and left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from hostler.agent.background_thread import BackgroundThread
from hostler.agent.driver import DriverError, ObservedVm, Power
from hostler.agent.drivers.machine.processes import ProcessId, is_alive
from hostler.agent.drivers.qemu.command import size_from_arguments
from hostler.agent.drivers.qemu.folder import VmFile, VmFolder, vm_folders
from hostler.agent.drivers.qemu.machines import Machines
from hostler.agent.drivers.qemu.migration import Landings, Sendings
from hostler.agent.drivers.qemu.processes import QemuProcess, find_process, scan, vm_of
from hostler.agent.messages import LONGEST_NAME

__all__ = ["describe_stranger", "find_vms"]

_AT_ONCE = 32
# QEMU's words for a VM whose processors stand still and whose memory is there; in all others it runs, or may.
_PAUSED = ("paused", "prelaunch", "io-error", "suspended")


class FolderScan(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of one VM say, and its process."""

    folder: VmFolder
    file: VmFile | None = None  # None: there is no VM, or its record is damaged
    process: ProcessId | None = None
    damage: str = ""


async def find_vms(
    machines: Machines,
    landings: Landings,
    sendings: Sendings,
    thread: BackgroundThread,
    *,
    is_reachable: bool = True,
) -> list[ObservedVm]:
    """Return every VM on this host; of those with unreachable folders, only those that run.

    Files are read by the thread alone: the storage under them may hang.
    """
    seen = await thread.run(scan)
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def describe(look: FolderScan) -> ObservedVm | None:
        async with at_once:
            return await _describe(machines, landings, sendings, look)

    looks = await thread.run(lambda: _read_folders(machines, seen)) if is_reachable else []
    found = [vm for vm in await asyncio.gather(*map(describe, looks)) if vm is not None]
    # A folder without a record owns no process: one that runs all the same is a stray.
    ours = {look.process for look in looks if look.file is not None or look.damage}
    strangers = [one for one in seen if one.is_qemu and one.id not in ours]
    return found + await thread.run(lambda: _describe_others(machines, strangers, {vm.vm for vm in found}))


def _read_folders(machines: Machines, seen: Sequence[QemuProcess]) -> list[FolderScan]:
    return [_read_folder(machines, folder, seen) for folder in vm_folders(machines.vms)]


def _read_folder(machines: Machines, folder: VmFolder, seen: Sequence[QemuProcess]) -> FolderScan:
    known = find_process(folder, machines.users.runner(folder), seen)
    process = None if known is None else known.id
    try:
        file = folder.read()
    except DriverError as error:
        return FolderScan(folder=folder, process=process, damage=error.message)
    if file is None or (process is None and machines.disks.missing_local(file.order, folder)):
        return FolderScan(folder=folder)  # without its disks it cannot run: it is absent until they come back
    folder.trim_console(machines.settings.console_bytes)
    return FolderScan(folder=folder, file=file, process=process)


async def _describe(machines: Machines, landings: Landings, sendings: Sendings, look: FolderScan) -> ObservedVm | None:
    folder, file, process = look.folder, look.file, look.process
    if look.damage:
        power: Power = "stopped" if process is None else "running"
        return ObservedVm(vm=folder.vm, power=power, is_ours=False, detail=look.damage)
    if file is None:
        return None
    power, detail = await _power(machines, landings, sendings, folder, file, process)
    order = file.order
    return ObservedVm(
        vm=folder.vm, power=power, cpu_count=order.cpu_count, memory_bytes=order.memory_bytes, detail=detail
    )


def _describe_others(machines: Machines, processes: Sequence[QemuProcess], known: set[str]) -> list[ObservedVm]:
    """Return the VMs without a folder of ours: our strays, and foreign VMs."""
    found: list[ObservedVm] = []
    for one in processes:
        # One of ours that was deleted while we looked has no folder any more; it has no process either.
        if not is_alive(one.id):
            continue
        vm = vm_of(one, machines.vms, machines.users.runner)
        found.append(_stray(one, vm) if vm and vm not in known else describe_stranger(one))
        known.add(found[-1].vm)
    return found


async def _power(
    machines: Machines,
    landings: Landings,
    sendings: Sendings,
    folder: VmFolder,
    file: VmFile,
    process: ProcessId | None,
) -> tuple[Power, str]:
    if file.stage == "left":
        if not file.is_taken:
            sendings.keep_saying(folder)
        return "left", "" if file.is_taken else "it is not confirmed yet that it runs there"
    if file.stage == "landing":
        return "landing", ""
    if process is None:
        return "stopped", ""
    try:
        if file.is_arriving and not machines.lock(folder.vm).locked():
            await landings.finish_arrival(folder)
        status = await machines.status_at_a_glance(folder)
    except DriverError as error:
        return ("running", error.message) if is_alive(process) else ("stopped", "")
    if status == "postmigrate":
        # Copied completely, by an agent that was killed before it could note it.
        if file.sending is not None and not machines.lock(folder.vm).locked():
            sendings.leave(folder)
            sendings.keep_saying(folder)
        return "left", ""
    return "paused" if status in _PAUSED else "running", "" if status in ("running", "paused") else status


def _stray(seen: QemuProcess, vm: str) -> ObservedVm:
    """Return a VM of ours that runs although its folder, or the record in it, is gone."""
    processors, memory = size_from_arguments(seen.arguments)
    detail = f"process {seen.id.pid}"
    return ObservedVm(vm=vm, power="running", cpu_count=processors, memory_bytes=memory, detail=detail, is_stray=True)


def describe_stranger(seen: QemuProcess) -> ObservedVm:
    """Describe a QEMU that no folder of ours recognizes."""
    processors, memory = size_from_arguments(seen.arguments)
    # A stranger calls itself what it likes: bytes that are no text, or end a line of a log, go no further than here.
    guest = "".join(char if char.isprintable() else "?" for char in seen.guest[:LONGEST_NAME])
    return ObservedVm(
        vm=f"{guest or 'qemu'}@{seen.id.pid}",
        power="running",
        is_ours=False,
        cpu_count=processors,
        memory_bytes=memory,
        detail=f"process {seen.id.pid} of user {seen.uid}",
    )
