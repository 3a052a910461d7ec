"""Disks of VMs as volumes of libvirt's storage pools: overlays on images, named after their VM. Used by ``driver``.

All functions run in the connection's thread. A crash between volume and domain leaves a volume that the next create
finds and uses, and that delete removes: names follow from the VM alone.

Headers of volumes are checked before each boot, because QEMU opens the files that one names and root of another host
can write to a shared pool. Accepted are only headers that ``qemu-img create`` writes for our volumes. The agent reads a
volume itself or, if it may not, through libvirt. QEMU opens the volume again by its name, so a header that is rewritten
after this check is believed.

Each pool of files has a mark, a volume of a known name: libvirt calls a pool active whether or not the file system
below it is mounted, and an active pool on an empty mount point is not an empty pool. Pools that are no folders (LVM,
RBD) need no mark: libvirt cannot activate them without their storage.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from hostler.agent.driver import BlockedError, DiskMissingError, PermanentError, UnsupportedError
from hostler.agent.drivers.libvirt.connection import Handle
from hostler.agent.drivers.libvirt.domain_xml import Volume, domain_name, pools_of, volume_name, volume_xml
from hostler.agent.drivers.machine.allowlist import under_roots
from hostler.agent.drivers.machine.disk_file import open_plain
from hostler.agent.drivers.machine.qcow2_header import read_header, why_not_overlay
from hostler.agent.drivers.machine.storage_marks import StorageMarks
from hostler.agent.messages import Image, Order

__all__ = [
    "OWN", "PoolMark", "check_volumes", "find_pool", "find_volume", "has_folder", "lacks_volume", "make_volumes",
    "pool_offered", "remove_volumes", "unavailable_pools",
]  # fmt: skip

OWN = "hostler-"  # how names of our volumes begin
_MOST_DISKS = 26
_FOLDERS = ("dir", "fs", "netfs", "vstorage")  # types of pools whose volumes are files
_NO_SUPPORT = 3  # VIR_ERR_NO_SUPPORT


def find_pool(connection: Handle, name: str) -> Handle | None:
    """Return a storage pool that is running; None where there is none of this name."""
    try:
        pools = {pool.name(): pool for pool in connection.listAllStoragePools(0)}
    except Exception as error:
        if getattr(error, "get_error_code", int)() == _NO_SUPPORT:  # a daemon that serves domains alone
            return None
        raise
    pool = pools.get(name)
    return pool if pool is not None and pool.isActive() else None


def has_folder(pool: Handle) -> bool:
    """Say whether the volumes of a pool are files in a folder."""
    return ElementTree.fromstring(pool.XMLDesc(0)).get("type", "") in _FOLDERS


def find_volume(pool: Handle, name: str) -> Handle | None:
    """Return a volume that is there now; None if there is none.

    Libvirt remembers what was in a pool when it was started. It looks at one volume when asked for its size, and at
    all of them when told to.
    """
    for is_last in (False, True):
        volume = {one.name(): one for one in pool.listAllVolumes(0)}.get(name)
        if volume is not None:
            try:
                volume.info()
            except Exception as error:
                if is_last or not hasattr(error, "get_error_code"):  # not libvirt's own
                    raise
            else:
                return volume
        if not is_last:
            pool.refresh(0)
    return None


def lacks_volume(pool: Handle, volumes: Iterable[Volume]) -> bool:
    """Say whether one of a domain's volumes should be in this pool and is not."""
    return any(volume.pool == pool.name() and find_volume(pool, volume.name) is None for volume in volumes)


def pool_offered(pool: Handle) -> int:
    """Return what a pool has for VMs: what is free in it, and what their volumes take there already."""
    offered: int = pool.info()[3]
    for volume in pool.listAllVolumes(0):
        offered += volume.info()[2] if volume.name().startswith(OWN) else 0
    return offered


def make_volumes(
    connection: Handle, order: Order, pools: Mapping[str, str], roots: Sequence[Path], *, may_make: bool = True
) -> list[Volume]:
    """Make what is missing of a VM's volumes and let those grow that are too small; ``pools`` by name of storage.

    Unless it ``may_make`` them, all were made before: DiskMissingError for one that is not there.
    """
    if len(order.disks) > _MOST_DISKS:
        raise PermanentError(f"{len(order.disks)} disks are too many", hint=f"at most {_MOST_DISKS}")
    plans = []
    for number, disk in enumerate(order.disks):  # all of them are checked before any is made
        if disk.storage not in pools:
            raise BlockedError(
                f"this host has no storage {disk.storage!r}", hint="start its agent with --storage NAME=POOL"
            )
        backing = _backing(disk.image, roots)
        volume = Volume(pools[disk.storage], volume_name(order.vm, number), backing)
        plans.append((volume, disk.size_bytes, backing))
    for volume, size_bytes, backing in plans:
        pool = find_pool(connection, volume.pool)
        if pool is None:
            raise BlockedError(
                f"the storage pool {volume.pool!r} is not running", hint=f"virsh pool-start {volume.pool}"
            )
        there = find_volume(pool, volume.name)
        if there is None and not may_make:
            raise DiskMissingError(
                f"the volume {volume.name} was made before and is not in the storage pool {volume.pool!r}",
                hint="bring it back, or delete the VM",
            )
        if there is None:
            pool.createXML(volume_xml(volume.name, size_bytes, backing), 0)
        else:
            _grow(there, size_bytes)
    return [volume for volume, _, _ in plans]


def remove_volumes(connection: Handle, vm: str, pools: Iterable[str]) -> None:
    """Remove all volumes of a VM."""
    prefix = f"{domain_name(vm)}-"
    for name in sorted(set(pools)):
        pool = find_pool(connection, name)
        for volume in pool.listAllVolumes(0) if pool is not None else ():
            if volume.name().startswith(prefix):
                volume.delete(0)


def _backing(image: Image | None, roots: Sequence[Path]) -> str:
    if image is None:
        return ""
    if not image.path:
        raise UnsupportedError(
            "the driver libvirt fetches no images", hint="put the image below a folder of images and order its path"
        )
    return str(under_roots(image.path, roots))


def _grow(volume: Handle, size_bytes: int) -> None:
    has_bytes = volume.info()[1]
    if size_bytes < has_bytes:
        raise PermanentError("a disk cannot shrink", hint=f"order at least {has_bytes} bytes")
    if size_bytes > has_bytes:
        volume.resize(size_bytes, 0)


_VERSIONS = (2, 3)  # libvirt may write either; version 2 cannot name a file for the data
_HEADER = 2**21  # bytes: the largest first cluster, which has all names


def check_volumes(connection: Handle, volumes: Sequence[Volume], roots: Sequence[Path]) -> None:
    """Reject volumes that are missing, and those whose header names other files than the image that was ordered.

    If it is not known which image that was, it is one below ``roots``.
    """
    for volume in volumes:
        pool = find_pool(connection, volume.pool)
        if pool is None:
            raise BlockedError(
                f"the storage pool {volume.pool!r} is not running", hint=f"virsh pool-start {volume.pool}"
            )
        there = find_volume(pool, volume.name)
        if there is None:
            raise DiskMissingError(
                f"the volume {volume.name} was made before and is not in the storage pool {volume.pool!r}",
                hint="bring it back, or delete the VM",
            )
        with _opened(connection, pool, there) as descriptor:
            if descriptor is not None:
                _check(descriptor, there.path(), volume, roots)


def _check(descriptor: int, path: str, volume: Volume, roots: Sequence[Path]) -> None:
    header = read_header(descriptor)
    base = volume.base
    if base is None:
        base = header.backing_name if header is not None else ""
        base = str(under_roots(base, roots)) if base else ""
    sizes = (0 if header is None else header.size_bytes,)  # libvirt rounds sizes up
    reason = why_not_overlay(header, base=Path(base).name, sizes=sizes, versions=_VERSIONS)
    if reason:
        hint = f"another host changed it? look: qemu-img info -U {path}; restore it, or delete the VM"
        raise BlockedError(f"{path} {reason}", hint=hint)


@contextmanager
def _opened(connection: Handle, pool: Handle, volume: Handle) -> Iterator[int | None]:
    """Open a volume to be read; None for one that has no content, of libvirt's test hypervisor."""
    address = urlsplit(connection.getURI())
    path = Path(volume.path())
    descriptor: int | None = None
    if not address.netloc and has_folder(pool):
        if address.scheme == "test" and not os.path.lexists(path):
            yield None
            return
        try:
            descriptor = open_plain(path, os.O_RDONLY)
        except OSError:
            descriptor = None  # libvirt may, where we may not
    if descriptor is None:
        descriptor = _download(connection, volume)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _download(connection: Handle, volume: Handle) -> int:
    """Return a descriptor of the beginning of a volume, read by libvirt."""
    descriptor = os.memfd_create("volume")
    try:
        stream = connection.newStream(0)
        volume.download(stream, 0, _HEADER, 0)
        while piece := stream.recv(2**16):
            os.write(descriptor, piece)
        stream.finish()
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


_PREFIX = f"{OWN}storage-"
_SIZE = 512  # bytes: a volume needs a size, and nothing is written into it


def unavailable_pools(
    connection: Handle, pools: Mapping[str, str], marks_file: Path | None, *, needs_local: bool
) -> dict[str, str]:
    """Return why storages are unavailable: their pools do not run, or run without the storage that was there before.

    ``needs_local``: VMs are given local disks. If that is not so, and never was, they need no pool.
    """
    running = {storage: find_pool(connection, name) for storage, name in pools.items()}
    places = {name: PoolMark(connection, pool) for name, pool in running.items() if pool is not None}
    marks = StorageMarks(marks_file, {name: place for name, place in places.items() if place.is_needed})
    found = marks.unavailable()
    for storage, pool in running.items():
        if pool is None and (storage or needs_local or marks.knows("")):
            found[storage] = f"the storage pool {pools[storage]!r} is not running: virsh pool-start {pools[storage]}"
    return found


class PoolMark:
    """The mark of one active pool. Lives as long as one piece of work on a connection."""

    def __init__(self, connection: Handle, pool: Handle) -> None:
        self._connection = connection
        self._pool = pool

    @property
    def is_needed(self) -> bool:
        """Say whether the pool could be active without its storage."""
        return has_folder(self._pool)

    def read(self) -> tuple[str, ...]:
        """Return the marks whose volumes are there now, not only in what libvirt remembers of the pool."""
        names = [name for name in self._pool.listVolumes() if name.startswith(_PREFIX)]
        found = [name for name in names if find_volume(self._pool, name) is not None]
        if not found:
            with suppress(Exception):  # a pool that cannot be read has no mark
                self._pool.refresh(0)
                found = [name for name in self._pool.listVolumes() if name.startswith(_PREFIX)]
        return tuple(name.removeprefix(_PREFIX) for name in found)

    def write(self) -> None:
        """Make the volume. Not in a pool that lacks the volumes of our domains: it was used before it had a mark."""
        if self._has_lost_volumes():
            return
        volume = ElementTree.Element("volume")
        ElementTree.SubElement(volume, "name").text = f"{_PREFIX}{secrets.token_hex(16)}"
        ElementTree.SubElement(volume, "capacity", unit="bytes").text = str(_SIZE)
        target = ElementTree.SubElement(volume, "target")
        ElementTree.SubElement(target, "format", type="raw")
        with suppress(Exception):  # what cannot be marked is unavailable
            self._pool.createXML(ElementTree.tostring(volume, encoding="unicode"), 0)

    def describe(self) -> str:
        """Return the name of the pool."""
        return f"the storage pool {self._pool.name()!r}"

    def describe_absence(self) -> str:
        """Say what is missing in it."""
        return f"has no volume {_PREFIX}..., by which it is known"

    def _has_lost_volumes(self) -> bool:
        if any(name.startswith(OWN) for name in self._pool.listVolumes()):
            return False
        ours = (domain for domain in self._connection.listAllDomains(0) if domain.name().startswith(OWN))
        return any(self._pool.name() in pools_of(domain.XMLDesc(0)) for domain in ours)
