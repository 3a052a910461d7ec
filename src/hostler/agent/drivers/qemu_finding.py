"""Which VMs are on a host, and how they are: folders and processes brought together.

A QEMU that no folder of ours recognises is somebody else's: it is told, with what it takes of the host, and left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hostler.agent.drivers.driver import DriverError, Found, Power
from hostler.agent.drivers.qemu_command import size_from_arguments
from hostler.agent.drivers.qemu_folder import ProcessId, VmFile, VmFolder, vm_folders
from hostler.agent.drivers.qemu_landing import Landings
from hostler.agent.drivers.qemu_machines import Machines
from hostler.agent.drivers.qemu_processes import Seen, is_alive, scan, vm_of
from hostler.agent.drivers.qemu_sending import Sendings
from hostler.agent.limits import LONGEST_NAME

__all__ = ["describe_stranger", "find_vms"]

_AT_ONCE = 32
# QEMU's words for a VM whose processors stand still and whose memory is there; in all others it runs, or may.
_PAUSED = ("paused", "prelaunch", "io-error", "suspended")


async def find_vms(
    machines: Machines, landings: Landings, sendings: Sendings, *, is_reachable: bool = True
) -> list[Found]:
    """Return every VM on this host; only those that run where their folders cannot be reached."""
    seen = await asyncio.to_thread(scan)
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def look(folder: VmFolder) -> tuple[Found | None, ProcessId | None]:
        async with at_once:
            return await _look(machines, landings, sendings, folder, seen)

    folders = list(vm_folders(machines.vms)) if is_reachable else []
    looks = await asyncio.gather(*(look(folder) for folder in folders))
    ours = {process for _, process in looks if process is not None}
    found = [vm for vm, _ in looks if vm is not None]
    # One of ours that was deleted while we looked has no folder any more; it has no process either.
    strangers = [one for one in seen if one.is_qemu and one.id not in ours and is_alive(one.id)]
    known = {vm.vm for vm in found}
    for one in strangers:
        vm = vm_of(one, machines.vms, machines.users.runner)
        found.append(_stray(one, vm) if vm and vm not in known else describe_stranger(one))
        known.add(found[-1].vm)
    return found


async def _look(
    machines: Machines, landings: Landings, sendings: Sendings, folder: VmFolder, seen: Sequence[Seen]
) -> tuple[Found | None, ProcessId | None]:
    process = await machines.process(folder, seen)
    try:
        file = folder.read()
    except DriverError as error:
        power: Power = "stopped" if process is None else "running"
        return Found(vm=folder.vm, power=power, is_ours=False, detail=error.message), process
    if file is None:
        return None, None  # if it runs all the same, its process is a stray
    if process is None and machines.disks.missing_local(file.order, folder):
        return None, None  # what is left cannot run: it is absent until the disk comes back
    power, detail = await _power(machines, landings, sendings, folder, file, process)
    folder.trim_console(machines.settings.console_bytes)
    order = file.order
    found = Found(vm=folder.vm, power=power, cpu_count=order.cpu_count, memory_bytes=order.memory_bytes, detail=detail)
    return found, process


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
        return "left", "" if file.is_taken else "nobody said yet that it runs there"
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


def _stray(seen: Seen, vm: str) -> Found:
    """Return a VM of ours that runs although its folder, or the record in it, is gone."""
    processors, memory = size_from_arguments(seen.arguments)
    detail = f"process {seen.id.pid}"
    return Found(vm=vm, power="running", cpu_count=processors, memory_bytes=memory, detail=detail, is_stray=True)


def describe_stranger(seen: Seen) -> Found:
    """Describe a QEMU that no folder of ours recognizes."""
    processors, memory = size_from_arguments(seen.arguments)
    # A stranger calls itself what it likes: bytes that are no text, or end a line of a log, go no further than here.
    guest = "".join(char if char.isprintable() else "?" for char in seen.guest[:LONGEST_NAME])
    return Found(
        vm=f"{guest or 'qemu'}@{seen.id.pid}",
        power="running",
        is_ours=False,
        cpu_count=processors,
        memory_bytes=memory,
        detail=f"process {seen.id.pid} of user {seen.uid}",
    )
