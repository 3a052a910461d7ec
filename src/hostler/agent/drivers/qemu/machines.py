"""VMs of one host as QEMU has them: booted from what their folders say, asked how they are, ended. Used by ``driver``.

QEMU needs no rights of its own: a tap on a bridge is handed to it as an open descriptor. The tap lives as long as
a process holds it open, so it goes with its VM.

Whether the processors can run guests by themselves is found out by trying. A ``/dev/kvm`` proves little: there are ones
that start a VM and then cannot run a common kernel. Those belong to processors without virtualization of their own, so
that is asked first, and QEMU is tried after it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from hostler.agent.driver import BlockedError, DriverError, PermanentError, UnsupportedError
from hostler.agent.drivers.machine.allowlist import check_bridge, under_roots
from hostler.agent.drivers.machine.landlock import AllowedFiles, program_folders
from hostler.agent.drivers.machine.processes import ProcessId, ToolLimits, VmUser, end, is_alive, run_tool
from hostler.agent.drivers.qemu.command import MACHINE, Boot, command_line, node_names
from hostler.agent.drivers.qemu.disks import Disks
from hostler.agent.drivers.qemu.folder import VmFile, VmFolder, folder_of, vm_folders
from hostler.agent.drivers.qemu.monitor import Answer, MonitorError, ask, session
from hostler.agent.drivers.qemu.processes import find_process, scan, spawn
from hostler.agent.drivers.qemu.settings import QemuSettings
from hostler.agent.drivers.qemu.users import VmUsers
from hostler.agent.messages import Order

__all__ = ["Machines", "can_make_taps", "find_acceleration", "open_tap"]

_TUN = Path("/dev/net/tun")
# linux/if_tun.h and linux/sockios.h
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_SIOCGIFINDEX, _SIOCBRADDIF, _SIOCSIFFLAGS, _IFF_UP = 0x8933, 0x89A2, 0x8914, 0x1


def can_make_taps() -> bool:
    """Say whether this process may make taps."""
    return os.geteuid() == 0 and _TUN.exists()


def open_tap(bridge: str) -> int:
    """Make a tap, put it on the bridge and return its descriptor; the caller closes it."""
    try:
        descriptor = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
        try:
            request = struct.pack("16sH22x", b"", _IFF_TAP | _IFF_NO_PI)
            tap = fcntl.ioctl(descriptor, _TUNSETIFF, request)[:16].rstrip(b"\0")
            _join(tap, bridge.encode())
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise BlockedError(
            f"no tap on the bridge {bridge}: {error}", hint="is the bridge there? `ip link show type bridge`"
        ) from error
    return descriptor


def _join(tap: bytes, bridge: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        (index,) = struct.unpack("16xi20x", fcntl.ioctl(control, _SIOCGIFINDEX, struct.pack("16s24x", tap)))
        fcntl.ioctl(control, _SIOCBRADDIF, struct.pack("16si20x", bridge, index))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", tap, _IFF_UP))


_LIMITS = ToolLimits(timeout_s=20.0, cpu_s=20, memory_bytes=2**33, file_bytes=2**20)


async def find_acceleration(
    program: str, runner: VmUser, *, processors: Path = Path("/proc/cpuinfo"), device: Path = Path("/dev/kvm")
) -> Literal["kvm", "tcg"]:
    """Return how VMs run here: with KVM, or emulated."""
    if not _can_virtualise(processors) or not device.exists():
        return "tcg"
    # QEMU makes a whole machine on the processors, describes it and ends: the shortest life a VM can have.
    trial = [
        program, "-no-user-config", "-nodefaults", "-machine", MACHINE, "-accel", "kvm", "-cpu", "host",
        "-m", "size=16M", "-display", "none", "-S", "-dump-vmstate", "/dev/null",
    ]  # fmt: skip
    try:
        code, _, _ = await run_tool(trial, runner, _LIMITS)
    except TimeoutError:
        return "tcg"
    return "kvm" if code == 0 else "tcg"


def _can_virtualise(processors: Path) -> bool:
    for line in processors.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return not {"vmx", "svm"}.isdisjoint(value.split())
    return False


_ANSWER_S = 30.0
_GLANCE_S = 5.0
_LOOK_S = 0.05
_MOST_PROCESSORS = 255
_LEAST_MEMORY = 2**20
_LONGEST_NAMES = 500  # characters of files' names in an error


class Machines:
    """The steps of the driver's verbs. ``lock`` lets one verb at a time use a VM."""

    def __init__(self, settings: QemuSettings, users: VmUsers, disks: Disks, acceleration: str) -> None:
        self.settings = settings
        self.users = users
        self.disks = disks
        self.acceleration = acceleration
        self.vms = settings.folder / "vms"
        self._locks: dict[str, asyncio.Lock] = {}

    def lock(self, vm: str) -> asyncio.Lock:
        """Return the lock of a VM."""
        return self._locks.setdefault(vm, asyncio.Lock())

    @asynccontextmanager
    async def making(self) -> AsyncIterator[None]:
        """Protect a folder that is being created from ``clear``."""
        with (self.settings.folder / "lock").open("ab") as lock:
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_SH)
            yield

    def clear(self) -> bool:
        """Remove what a crash left half made or removed; say whether that could be told from what is being made.

        A folder without a record whose QEMU runs lost its record in another way: it stays. Blocks: call it in a thread.
        """
        seen = scan()
        with (self.settings.folder / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            for folder in list(vm_folders(self.vms)):
                if not folder.is_vm and find_process(folder, self.users.runner(folder), seen) is None:
                    folder.remove()
        return True

    def folder(self, vm: str) -> VmFolder:
        """Return the folder of a VM, which may not be there."""
        return folder_of(self.vms, vm)

    def known(self, vm: str) -> tuple[VmFolder, VmFile]:
        """Return the folder of a VM that is there, and what it is."""
        folder = self.folder(vm)
        file = folder.read()
        if file is None:
            raise DriverError(f"there is no VM {vm} on this host", hint="create it first")
        return folder, file

    async def check_not_running(self, folder: VmFolder) -> None:
        """Reject creating a VM whose QEMU runs although its record is gone: it would run twice."""
        process = await self.process(folder)
        if process is not None:
            raise BlockedError(
                f"{folder.vm} runs as process {process.pid}, but its record is gone",
                hint="save its data from inside the guest, then end that process",
            )

    async def end_stray(self, vm: str) -> bool:
        """Kill the process of a VM whose record is gone; say whether there was one."""
        folder = self.folder(vm)
        process = await self.process(folder) if folder.read() is None else None
        if process is not None:
            await end(process)
        return process is not None

    def check(self, order: Order) -> None:
        """Reject what this host can never do, before anything is created."""
        if order.devices:
            raise UnsupportedError("QEMU is given no devices here", hint="order the VM without devices")
        check_bridge(order.network, self.settings.bridges if self.has_bridges else ())
        if not 1 <= order.cpu_count <= _MOST_PROCESSORS or order.memory_bytes < _LEAST_MEMORY:
            raise PermanentError(
                f"{order.vm} cannot have {order.cpu_count} processors and {order.memory_bytes} bytes of memory",
                hint="at least one processor and 1 MiB",
            )
        self.disks.check(order)

    @property
    def has_bridges(self) -> bool:
        """Say whether VMs can be put on bridges."""
        return bool(self.settings.bridges) and can_make_taps()

    async def check_files(self, order: Order) -> None:
        """Reject missing or forbidden boot files of a VM, before anything is created."""
        self._find_files(order)
        await self.disks.check_images(order)

    def _find_files(self, order: Order) -> Boot:
        roots = self.settings.image_roots
        return Boot(
            acceleration=self.acceleration,
            kernel=under_roots(order.kernel, roots) if order.kernel else None,
            initrd=under_roots(order.initrd, roots) if order.initrd else None,
        )

    async def boot(
        self, folder: VmFolder, order: Order, *, is_landing: bool = False, growing: tuple[int, ...] = ()
    ) -> None:
        """Start QEMU, and let the guest run once it is known which files QEMU opened; at a landing it waits on."""
        found = self._find_files(order)
        runner = self.users.settle(folder, self.disks.shared_paths(order, folder))
        async with self.disks.opened(order, folder, growing=growing) as disks:
            tap = open_tap(order.network.bridge) if order.network.kind == "bridge" else None
            try:
                boot = msgspec.structs.replace(found, disks=disks, tap=tap, is_landing=is_landing)
                process = await spawn(
                    command_line(self.settings.program, order, folder, boot),
                    folder,
                    runner,
                    file_limit=self._file_limit(order),
                    descriptors=_descriptors(boot),
                    allowed=self._allowed(boot),
                )
            finally:
                if tap is not None:
                    os.close(tap)
        await self._await_answer(folder, process)
        await self.check_files_opened(folder, order, process)
        if not is_landing:
            await self.ask(folder, "cont")

    async def check_files_opened(self, folder: VmFolder, order: Order, process: ProcessId) -> None:
        """End a QEMU whose guest has not begun if it has opened other files than it was given.

        A header that another host rewrote after our check can name a file (``data_file``), and QEMU has no option that
        forbids it. QEMU reads a header when it opens the disk; later changes to it open nothing.
        """
        async with session(folder.qmp, folder.vm) as opened:
            nodes = await opened.query("query-named-block-nodes", flat=True)
        expected = node_names(order)
        named = [str(node.get("file", "")) for node in nodes if node.get("node-name") not in expected]
        if not named and len(nodes) == len(expected):
            return
        await end(process)
        shown = "".join(char if char.isprintable() else "?" for char in ", ".join(named))[:_LONGEST_NAMES]
        raise BlockedError(
            f"QEMU opened files for {folder.vm} that it was not given: {shown or 'none of its own'}",
            hint="another host rewrote a disk or an image while the VM started: find out which; the VM is tried again",
        )

    async def process(self, folder: VmFolder) -> ProcessId | None:
        """Return the process of a VM, if it has one."""
        found = await asyncio.to_thread(find_process, folder, self.users.runner(folder))
        return None if found is None else found.id

    async def ask(self, folder: VmFolder, command: str, **arguments: object) -> Answer:
        """Ask QEMU."""
        return await ask(folder.qmp, folder.vm, command, **arguments)

    async def status(self, folder: VmFolder) -> str:
        """Return QEMU's word for what a VM does."""
        return str((await self.ask(folder, "query-status"))["status"])

    async def status_at_a_glance(self, folder: VmFolder) -> str:
        """Return the same, or fail soon: one VM that hangs must not hide the others."""
        async with session(folder.qmp, folder.vm, patience_s=_GLANCE_S) as opened:
            return str((await opened.ask("query-status"))["status"])

    async def end(self, folder: VmFolder) -> None:
        """End the process of a VM, if it has one."""
        process = await self.process(folder)
        if process is not None:
            await end(process)

    def _file_limit(self, order: Order) -> int:
        """Return how long a file of the VM may become: no disk is longer, and no console is left to grow for ever."""
        largest = max((disk.size_bytes for disk in order.disks), default=0)
        return largest + largest // 8 + 64 * max(self.settings.console_bytes, 2**20)

    def _allowed(self, boot: Boot) -> AllowedFiles:
        """Return the files that QEMU opens by their names; disks are not among them."""
        files = [path for path in (boot.kernel, boot.initrd) if path is not None]
        return AllowedFiles(read=(*files, *program_folders(self.settings.program)))

    async def _await_answer(self, folder: VmFolder, process: ProcessId) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                while True:
                    try:
                        await self.status(folder)
                        return
                    except MonitorError:
                        if not is_alive(process):
                            raise DriverError(
                                f"QEMU ended at once for {folder.vm}: {folder.last_words()}", hint=f"see {folder.log}"
                            ) from None
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError as error:
            await end(process)
            raise DriverError(
                f"QEMU does not answer for {folder.vm}: {folder.last_words()}", hint=f"see {folder.log}"
            ) from error


def _descriptors(boot: Boot) -> tuple[int, ...]:
    found = [boot.tap]
    for disk in boot.disks:
        found += [disk.descriptor, disk.base_descriptor]
    return tuple(one for one in found if one is not None)
