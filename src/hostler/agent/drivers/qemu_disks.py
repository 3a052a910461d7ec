"""Disks of VMs: overlays in qcow2 over images that stay as they are, made and grown by qemu-img without privileges.

What an image says about itself is not believed: one that names further files (a qcow2 with a backing file, or with data
elsewhere) could name any file of the host, and is refused. Beside a disk on shared storage lies the name of the host
that has the VM: another one, where the VM once was, does not remove it. No name: a host let go of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hostler.agent.drivers.allowed import under_roots
from hostler.agent.drivers.driver import BlockedError, DriverError, PermanentError
from hostler.agent.drivers.qemu_cache import ImageCache
from hostler.agent.drivers.qemu_command import DiskFile, plain_path
from hostler.agent.drivers.qemu_folder import VmFolder
from hostler.agent.drivers.qemu_owner import check_plain, read_owner, remove_owner, write_owner
from hostler.agent.drivers.qemu_processes import run_tool
from hostler.agent.drivers.qemu_settings import QemuSettings, Runner
from hostler.agent.messages import Disk, Image, Order

__all__ = ["Disks", "is_shared"]

_TOOL_S = 300.0
_FORMATS = ("raw", "qcow2")


class _ImageInfo(msgspec.Struct, rename="kebab"):
    format: str
    virtual_size: int
    backing_filename: str = ""
    format_specific: dict[str, object] = {}


def is_shared(order: Order) -> bool:
    """Say whether all disks of a VM, if any, are within reach of other hosts too."""
    return all(disk.storage for disk in order.disks)


class Disks:
    """Makes, grows, finds and removes the disks of one host's VMs."""

    def __init__(self, settings: QemuSettings, runner: Runner, cache: ImageCache, *, host: str) -> None:
        self._settings = settings
        self._runner = runner
        self._cache = cache
        self._host = host

    async def files(self, order: Order, folder: VmFolder) -> tuple[DiskFile, ...]:
        """Return where the disks of an order lie, with what they lie over; nothing is made, images may be fetched."""
        return tuple([await self._file(order, number, folder) for number in range(len(order.disks))])

    async def make(self, order: Order, folder: VmFolder) -> None:
        """Make the disks of a new VM; one on shared storage that is there already is the VM's own."""
        for disk, file in zip(order.disks, await self.files(order, folder), strict=True):
            if not disk.storage or not file.path.exists():
                await self._make(disk, file)
        self.claim(order, folder)

    async def grow(self, before: Order, after: Order, folder: VmFolder) -> None:
        """Bring the disks of a stopped VM to their new sizes."""
        if len(before.disks) != len(after.disks):
            raise PermanentError(f"{after.vm} has {len(before.disks)} disks", hint="disks are not added by a resize")
        pairs = list(zip(before.disks, after.disks, await self.files(before, folder), strict=True))
        for old, new, _ in pairs:
            if new.size_bytes < old.size_bytes:
                raise PermanentError(f"a disk of {after.vm} would shrink", hint="what lies at its end would be lost")
        for old, new, file in pairs:
            if new.size_bytes > old.size_bytes:
                await self._tool("resize", "-q", "-f", "qcow2", plain_path(file.path), str(new.size_bytes))

    def claim(self, order: Order, folder: VmFolder) -> None:
        """Write beside the disks on shared storage that the VM is here."""
        try:
            for path in self._shared(order, folder):
                write_owner(path, self._host)
        except OSError as error:
            raise BlockedError(f"shared storage cannot be written: {error}", hint="it is tried again") from error

    def let_go(self, order: Order, folder: VmFolder) -> None:
        """Keep the disks on shared storage for whoever has the VM now, and claim them no longer."""
        try:
            for path in self._shared(order, folder):
                if read_owner(path) == self._host:
                    remove_owner(path)
        except OSError as error:
            raise BlockedError(f"shared storage cannot be written: {error}", hint="it is tried again") from error

    def remove_shared(self, order: Order, folder: VmFolder, *, is_here: bool) -> None:
        """Remove what does not lie in the VM's folder, unless the VM has gone to another host.

        One that was sent away from here is another host's, until that one let go of it.
        """
        mine = ("", self._host) if is_here else ("",)
        try:
            for path in self._shared(order, folder):
                if read_owner(path) in mine:
                    path.unlink(missing_ok=True)
                    remove_owner(path)
        except OSError as error:
            raise BlockedError(f"a disk of {order.vm} cannot be removed: {error}", hint="it is tried again") from error

    @contextmanager
    def laying(self, order: Order) -> Iterator[None]:
        """Keep the images of a VM that is being made, until its folder says what it lies over."""
        with self._cache.holding(disk.image for disk in order.disks if disk.image is not None):
            yield

    def check(self, order: Order) -> None:
        """Refuse disks that this host could never give."""
        names = [name for name, _ in self._settings.storages]
        for disk in order.disks:
            if disk.storage and disk.storage not in names:
                raise PermanentError(f"this host has no storage {disk.storage!r}", hint=f"it has: {', '.join(names)}")
            if disk.size_bytes <= 0 or disk.size_bytes % 512:
                raise PermanentError(f"a disk of {disk.size_bytes} bytes", hint="take a multiple of 512")
            if disk.image is not None and disk.image.url:
                self._cache.check(disk.image)

    async def _file(self, order: Order, number: int, folder: VmFolder) -> DiskFile:
        disk = order.disks[number]
        path = self._path(disk, number, folder)
        if disk.storage:
            check_plain(path)
        if disk.image is None:
            return DiskFile(path=path)
        base = await self._image(disk.image)
        info = await self._inspect(base)
        if info.virtual_size > disk.size_bytes:
            raise PermanentError(
                f"the image of {order.vm} takes {info.virtual_size} bytes and its disk {disk.size_bytes}",
                hint="order a larger disk",
            )
        return DiskFile(path=path, base=base, base_format=info.format)

    def _shared(self, order: Order, folder: VmFolder) -> list[Path]:
        return [self._path(disk, number, folder) for number, disk in enumerate(order.disks) if disk.storage]

    def _path(self, disk: Disk, number: int, folder: VmFolder) -> Path:
        if disk.storage:
            return dict(self._settings.storages)[disk.storage] / f"{folder.vm}-disk{number}.qcow2"
        return folder.disks / f"disk{number}.qcow2"

    async def _image(self, image: Image) -> Path:
        if bool(image.path) == bool(image.url):
            raise PermanentError("an image is a path or a URL", hint="name one of them")
        if image.url:
            return await self._cache.fetch(image)
        return under_roots(image.path, self._settings.image_roots)

    async def _inspect(self, path: Path) -> _ImageInfo:
        text = await self._tool("info", "--output=json", "-U", plain_path(path))
        info = msgspec.json.decode(text, type=_ImageInfo)
        more = info.format_specific.get("data")
        if info.format not in _FORMATS:
            raise PermanentError(f"{path.name} is in the format {info.format}", hint="convert it to qcow2 or raw")
        if info.backing_filename or (isinstance(more, dict) and more.get("data-file")):
            raise PermanentError(f"{path.name} refers to other files", hint="flatten it: qemu-img convert")
        return info

    async def _make(self, disk: Disk, file: DiskFile) -> None:
        base = [] if file.base is None else ["-F", file.base_format, "-b", plain_path(file.base)]
        await self._tool("create", "-q", "-f", "qcow2", *base, plain_path(file.path), str(disk.size_bytes))

    async def _tool(self, *arguments: str) -> str:
        command = [self._settings.image_program, *arguments]
        code, out, error = await run_tool(command, self._runner, timeout_s=_TOOL_S)
        if code == 0:
            return out
        if "No space left" in error or "Permission denied" in error:
            raise BlockedError(f"{' '.join(command[:2])} failed: {error.strip()}", hint="look at the host's folders")
        raise DriverError(f"{' '.join(command[:2])} failed: {error.strip()}", hint="it is tried again")
