"""Disks of VMs: overlays in qcow2 over images that stay as they are, made and grown by qemu-img without privileges.

What an image or a disk says about itself is not believed: one that names further files (a backing file, or data
elsewhere) could name any file of the host, and is rejected. Each disk is opened and checked by the agent before each
use, and goes to QEMU as that descriptor. qemu-img has limits of memory and time, and reaches only the file that it is
given.

Beside a disk on shared storage lies a file with the name of the host that has the VM: another one, where the VM once
was, does not remove the disk. No name: a host let go of it. Others write to that folder too (the VMs' user, other
hosts), so nothing there is opened through a link: it could lead the agent, perhaps root, to any file of its machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from hostler.agent.driver import BlockedError, DiskMissingError, DriverError, PermanentError
from hostler.agent.drivers.machine.allowlist import plain_path, under_roots
from hostler.agent.drivers.machine.disk_file import (
    check_overlay,
    create_disk,
    give_disk,
    open_disk,
    open_image,
    path_of,
)
from hostler.agent.drivers.machine.landlock import AllowedFiles, program_folders
from hostler.agent.drivers.machine.processes import ToolLimits, VmUser, run_tool
from hostler.agent.drivers.machine.qcow2_header import read_header, why_not_image
from hostler.agent.drivers.qemu.command import DiskFile
from hostler.agent.drivers.qemu.folder import VmFolder
from hostler.agent.drivers.qemu.images import ImageCache
from hostler.agent.drivers.qemu.settings import QemuSettings
from hostler.agent.drivers.qemu.users import VmUsers
from hostler.agent.messages import Disk, Image, Order
from hostler.runtime.files import read_regular, write_durably

__all__ = ["Disks", "check_plain", "is_shared", "read_owner", "remove_owner", "write_owner"]

_FORMATS = ("raw", "qcow2")
_TOOL_S = 120.0  # to make or grow a disk, which writes a few clusters
_TOOL_CPU_S = 30
_TOOL_MEMORY = 2**30  # qemu-img itself takes 200 MiB of addresses
_LONGEST_ANSWER = 2**20
_LONGEST_OWNER = 256
_STRANGE_HINT = "it is not from this agent: check it, then remove it"


class _ImageInfo(msgspec.Struct, rename="kebab"):
    format: str
    virtual_size: int
    backing_filename: str = ""
    format_specific: dict[str, object] = {}


def is_shared(order: Order) -> bool:
    """Say whether all disks of a VM, if any, are on shared storage."""
    return all(disk.storage for disk in order.disks)


class Disks:
    """Creates, grows, finds and removes the disks of one host's VMs."""

    def __init__(self, settings: QemuSettings, users: VmUsers, cache: ImageCache, *, host: str) -> None:
        self._settings = settings
        self._users = users
        self._cache = cache
        self._host = host

    async def check_images(self, order: Order) -> None:
        """Reject missing or invalid images; creates nothing, but may fetch images."""
        for disk in order.disks:
            descriptor, _, _ = await self._open_base(order, disk)
            if descriptor is not None:
                os.close(descriptor)

    @asynccontextmanager
    async def opened(
        self, order: Order, folder: VmFolder, *, growing: tuple[int, ...] = ()
    ) -> AsyncIterator[tuple[DiskFile, ...]]:
        """Open and check the disks of a VM and their images. ``growing``: sizes that they may have too."""
        with ExitStack() as stack:
            files = []
            for number, disk in enumerate(order.disks):
                sizes = (disk.size_bytes, *growing[number : number + 1])
                files.append(await self._open(order, number, folder, stack, sizes))
            yield tuple(files)

    async def make(self, order: Order, folder: VmFolder) -> None:
        """Create the disks of a new VM; an existing one on shared storage is the VM's own.

        Such a disk may be smaller than ordered, if its last host died before it could grow it.
        """
        for number, disk in enumerate(order.disks):
            path = self._path(disk, number, folder)
            with ExitStack() as stack:
                if disk.storage and os.path.lexists(path):
                    file = await self._open(order, number, folder, stack, ())
                    size = check_overlay(file.descriptor, path, base=file.base.name if file.base else "").size_bytes
                    if size < disk.size_bytes:
                        await self._resize(file, disk.size_bytes, folder)
                    elif size > disk.size_bytes:
                        hint = f"resize the VM to a disk of {size} bytes"
                        raise BlockedError(f"{path} has {size} bytes, not {disk.size_bytes}", hint=hint)
                else:
                    await self._make(order, number, folder)
        self.claim(order, folder)

    def missing_local(self, order: Order, folder: VmFolder) -> list[int]:
        """Return which local disks of a VM are missing. A VM gets its record after all of its disks."""
        paths = enumerate(self._path(disk, number, folder) for number, disk in enumerate(order.disks))
        return [number for number, path in paths if not order.disks[number].storage and not os.path.lexists(path)]

    def check_made_before(self, order: Order, folder: VmFolder) -> None:
        """Reject creating a disk twice; a local disk without its record or its siblings is not used."""
        missing = self.missing_local(order, folder)
        for number, disk in enumerate(order.disks if order.has_disks else ()):
            path = self._path(disk, number, folder)
            is_usable = path.exists() if disk.storage else bool(missing) and number not in missing
            if not is_usable:
                raise DiskMissingError(
                    f"disk {number} of {order.vm} was made before and is not at {path}",
                    hint="bring it back, or delete the VM",
                )

    async def grow(self, before: Order, after: Order, folder: VmFolder) -> None:
        """Grow the disks of a stopped VM; some may have their new size from an earlier try."""
        growing = tuple(disk.size_bytes for disk in after.disks)
        async with self.opened(before, folder, growing=growing) as files:
            for size_bytes, file in zip(growing, files, strict=True):
                if _size_of(file) < size_bytes:
                    await self._resize(file, size_bytes, folder)

    def check_growth(self, before: Order, after: Order) -> None:
        """Reject a different set of disks, and smaller ones."""
        if len(before.disks) != len(after.disks):
            raise PermanentError(f"{after.vm} has {len(before.disks)} disks", hint="disks are not added by a resize")
        for old, new in zip(before.disks, after.disks, strict=True):
            if new.size_bytes < old.size_bytes:
                raise PermanentError(f"a disk of {after.vm} would shrink", hint="what lies at its end would be lost")

    def claim(self, order: Order, folder: VmFolder) -> None:
        """Note beside the disks on shared storage that the VM is here, and make its user their owner."""
        try:
            for path in self._shared(order, folder):
                give_disk(path, self._users.runner(folder))
                write_owner(path, self._host)
        except OSError as error:
            raise BlockedError(f"shared storage cannot be written: {error}", hint="it is tried again") from error

    def shared_paths(self, order: Order, folder: VmFolder) -> list[Path]:
        """Return where a VM's disks on shared storage lie."""
        return self._shared(order, folder)

    def let_go(self, order: Order, folder: VmFolder) -> None:
        """Leave the disks on shared storage to the host that has the VM now, and end our claim."""
        try:
            for path in self._shared(order, folder):
                if read_owner(path) == self._host:
                    remove_owner(path)
        except OSError as error:
            raise BlockedError(f"shared storage cannot be written: {error}", hint="it is tried again") from error

    def remove_shared(self, order: Order, folder: VmFolder, *, is_here: bool) -> None:
        """Remove the disks outside the VM's folder, unless the VM has gone to another host.

        The disks of a VM that was sent away belong to the other host until that host releases them.
        """
        mine = ("", self._host) if is_here else ("",)
        try:
            for path in self._shared(order, folder):
                if read_owner(path) in mine:
                    path.unlink(missing_ok=True)
                    self._unfinished(path).unlink(missing_ok=True)
                    remove_owner(path)
        except OSError as error:
            raise BlockedError(f"a disk of {order.vm} cannot be removed: {error}", hint="it is tried again") from error

    @contextmanager
    def laying(self, order: Order) -> Iterator[None]:
        """Protect the images of a VM that is being created, until its folder names them."""
        with self._cache.holding(disk.image for disk in order.disks if disk.image is not None):
            yield

    def check(self, order: Order) -> None:
        """Reject disks that this host cannot provide."""
        names = [name for name, _ in self._settings.storages]
        for disk in order.disks:
            if disk.storage and disk.storage not in names:
                raise PermanentError(f"this host has no storage {disk.storage!r}", hint=f"it has: {', '.join(names)}")
            if disk.size_bytes <= 0 or disk.size_bytes % 512:
                raise PermanentError(f"a disk of {disk.size_bytes} bytes", hint="take a multiple of 512")
            if disk.image is not None and disk.image.url:
                self._cache.check(disk.image)

    async def _open(
        self, order: Order, number: int, folder: VmFolder, stack: ExitStack, sizes: tuple[int, ...]
    ) -> DiskFile:
        disk = order.disks[number]
        path = self._path(disk, number, folder)
        base_descriptor, base, base_format = await self._open_base(order, disk)
        if base_descriptor is not None:
            stack.callback(os.close, base_descriptor)
        # In a thread: storage that hangs must not stop the agent.
        descriptor = await asyncio.to_thread(open_disk, path, self._users.runner(folder))
        stack.callback(os.close, descriptor)
        await asyncio.to_thread(check_overlay, descriptor, path, base=base.name if base else "", sizes=sizes)
        return DiskFile(
            path=path, descriptor=descriptor, base=base, base_descriptor=base_descriptor, base_format=base_format
        )

    async def _open_base(self, order: Order, disk: Disk) -> tuple[int | None, Path | None, str]:
        """Open the image of a disk; return its descriptor, path and format."""
        if disk.image is None:
            return None, None, ""
        base = await self._image(disk.image)
        descriptor = await asyncio.to_thread(open_image, base, self._users.common)
        try:
            info = await self._inspect(base, descriptor)
            if info.virtual_size > disk.size_bytes:
                raise PermanentError(
                    f"the image of {order.vm} takes {info.virtual_size} bytes and its disk {disk.size_bytes}",
                    hint="order a larger disk",
                )
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, base, info.format

    def _shared(self, order: Order, folder: VmFolder) -> list[Path]:
        return [self._path(disk, number, folder) for number, disk in enumerate(order.disks) if disk.storage]

    def _path(self, disk: Disk, number: int, folder: VmFolder) -> Path:
        if disk.storage:
            return dict(self._settings.storages)[disk.storage] / f"{folder.vm}-disk{number}.qcow2"
        return folder.disks / f"disk{number}.qcow2"

    def _unfinished(self, path: Path) -> Path:
        """Return the name of a disk while this host makes it."""
        return path.with_name(f"{path.name}.{self._host}.new")

    async def _image(self, image: Image) -> Path:
        if bool(image.path) == bool(image.url):
            raise PermanentError("an image is a path or a URL", hint="name one of them")
        if image.url:
            return await self._cache.fetch(image)
        return under_roots(image.path, self._settings.image_roots)

    async def _inspect(self, path: Path, descriptor: int) -> _ImageInfo:
        header = read_header(descriptor)
        reason = why_not_image(header) if header is not None else ""
        if reason:
            raise PermanentError(f"{path.name} {reason}", hint="flatten it: qemu-img convert")
        # Of what follows the header qemu-img makes what it can, within its limits: it knows the other formats.
        limits = ToolLimits(
            timeout_s=self._settings.inspect_s,
            cpu_s=max(int(self._settings.inspect_s), 1),
            memory_bytes=_TOOL_MEMORY,
            file_bytes=_LONGEST_ANSWER,
        )
        words = ("info", "--output=json", "-U", path_of(descriptor))
        allowed = AllowedFiles(read=(path,))
        text = await self._tool(words, path, self._users.common, limits, allowed, (descriptor,))
        try:
            info = msgspec.json.decode(text, type=_ImageInfo)
        except msgspec.DecodeError as error:
            raise PermanentError(f"qemu-img does not understand {path.name}", hint="convert it to qcow2") from error
        more = info.format_specific.get("data")
        if info.format not in _FORMATS:
            raise PermanentError(f"{path.name} is in the format {info.format}", hint="convert it to qcow2 or raw")
        if info.backing_filename or (isinstance(more, dict) and more.get("data-file")):
            raise PermanentError(f"{path.name} refers to other files", hint="flatten it: qemu-img convert")
        return info

    async def _make(self, order: Order, number: int, folder: VmFolder) -> None:
        """Create a disk under another name, so that an unfinished one is never taken for the VM's own."""
        disk, runner = order.disks[number], self._users.runner(folder)
        path = self._path(disk, number, folder)
        descriptor, base, base_format = await self._open_base(order, disk)
        if descriptor is not None:
            os.close(descriptor)
        new = self._unfinished(path)
        descriptor = await asyncio.to_thread(create_disk, new, runner)
        try:
            below = [] if base is None else ["-u", "-F", base_format, "-b", plain_path(base)]
            words = ("create", "-q", "-f", "qcow2", *below, path_of(descriptor), str(disk.size_bytes))
            await self._tool(words, path, runner, _limits(disk), AllowedFiles(write=(new,)), (descriptor,))
            new.rename(path)
        finally:
            os.close(descriptor)
            new.unlink(missing_ok=True)

    async def _resize(self, file: DiskFile, size_bytes: int, folder: VmFolder) -> None:
        # Without what lies below, whatever the header says by now: no image is longer than its disk.
        node = {
            "driver": "qcow2",
            "file": {"driver": "file", "filename": path_of(file.descriptor)},
            "backing": None,
        }
        words = ("resize", "-q", f"json:{json.dumps(node)}", str(size_bytes))
        limits = _limits(Disk(size_bytes=size_bytes))
        give_disk(file.path, self._users.runner(folder))
        allowed = AllowedFiles(write=(file.path,))
        await self._tool(words, file.path, self._users.runner(folder), limits, allowed, (file.descriptor,))

    async def _tool(
        self,
        arguments: tuple[str, ...],
        path: Path,
        runner: VmUser,
        limits: ToolLimits,
        allowed: AllowedFiles,
        descriptors: tuple[int, ...],
    ) -> str:
        command = [self._settings.image_program, *arguments]
        allowed = AllowedFiles(read=(*allowed.read, *program_folders(command[0])), write=allowed.write)
        doing = f"qemu-img {arguments[0]} of {path.name}"
        try:
            code, out, error = await run_tool(command, runner, limits, allowed=allowed, descriptors=descriptors)
        except TimeoutError as late:
            hint = f"is its storage hung, or the file made to exhaust the host? look: {path}"
            raise BlockedError(f"{doing} took longer than {limits.timeout_s:g} s", hint=hint) from late
        if code == 0:
            return out
        if code < 0 or "allocate" in error or "memory" in error.lower():
            hint = f"the file may be made to exhaust the host: look at {path}, or convert it elsewhere"
            raise BlockedError(f"{doing} needs more memory or time than it may have", hint=hint)
        if "No space left" in error or "Permission denied" in error:
            raise BlockedError(f"{doing} failed: {error.strip()}", hint="look at the host's folders")
        raise DriverError(f"{doing} failed: {error.strip()}", hint="it is tried again")


def _size_of(file: DiskFile) -> int:
    """Return the size that an open disk says it has."""
    header = read_header(file.descriptor)
    return 0 if header is None else header.size_bytes


def _limits(disk: Disk) -> ToolLimits:
    return ToolLimits(
        timeout_s=_TOOL_S, cpu_s=_TOOL_CPU_S, memory_bytes=_TOOL_MEMORY, file_bytes=disk.size_bytes + 2**26
    )


def check_plain(disk: Path) -> None:
    """Reject anything in a disk's place that is not a file of its own."""
    try:
        found = disk.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise BlockedError(f"{disk} is no plain file", hint=_STRANGE_HINT)


def read_owner(disk: Path) -> str:
    """Return the host that a disk belongs to; empty if a host released it."""
    path = _beside(disk)
    check_plain(path)
    try:
        return read_regular(path, _LONGEST_OWNER).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:  # it became something else meanwhile
        raise BlockedError(f"{path} cannot be read: {error.strerror}", hint=_STRANGE_HINT) from error


def write_owner(disk: Path, host: str) -> None:
    """Name the host, in a new file that replaces whatever was there."""
    path = _beside(disk)
    write_durably(path, host.encode(), mode=0o644, part=path.with_name(f"{path.name}.{host}.new"))


def remove_owner(disk: Path) -> None:
    """Remove the name of the host."""
    _beside(disk).unlink(missing_ok=True)


def _beside(disk: Path) -> Path:
    return disk.with_name(disk.name + ".host")
