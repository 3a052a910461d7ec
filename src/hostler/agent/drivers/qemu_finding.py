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
from hostler.agent.drivers.qemu_processes import Seen, is_alive, scan
from hostler.agent.drivers.qemu_sending import Sendings

__all__ = ["find_vms"]

_AT_ONCE = 32
# QEMU's words for a VM whose processors stand still and whose memory is there; in all others it runs, or may.
_PAUSED = ("paused", "prelaunch", "io-error", "suspended")


async def find_vms(machines: Machines, landings: Landings, sendings: Sendings) -> list[Found]:
    """Return every VM on this host."""
    seen = await asyncio.to_thread(scan)
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def look(folder: VmFolder) -> tuple[Found | None, ProcessId | None]:
        async with at_once:
            return await _look(machines, landings, sendings, folder, seen)

    looks = await asyncio.gather(*(look(folder) for folder in vm_folders(machines.vms)))
    ours = {process for _, process in looks if process is not None}
    found = [vm for vm, _ in looks if vm is not None]
    # One of ours that was deleted while we looked has no folder any more; it has no process either.
    strangers = [one for one in seen if one.is_qemu and one.id not in ours and is_alive(one.id)]
    return found + [_stranger(one) for one in strangers]


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
        return None, process
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


def _stranger(seen: Seen) -> Found:
    processors, memory = size_from_arguments(seen.arguments)
    return Found(
        vm=f"{seen.guest or 'qemu'}@{seen.id.pid}",
        power="running",
        is_ours=False,
        cpu_count=processors,
        memory_bytes=memory,
        detail=f"process {seen.id.pid} of user {seen.uid}",
    )
