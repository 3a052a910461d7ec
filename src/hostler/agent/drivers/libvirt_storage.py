"""Disks of VMs as volumes of libvirt's storage pools: overlays on images, named after their VM. Used by ``libvirt``.

All functions run in the connection's thread. A crash between volume and domain leaves a volume that the next create
finds and uses, and that delete removes: names follow from the VM alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from hostler.agent.drivers.allowed import under_roots
from hostler.agent.drivers.driver import BlockedError, DiskMissingError, PermanentError, UnsupportedError
from hostler.agent.drivers.libvirt_thread import Handle
from hostler.agent.drivers.libvirt_xml import Volume, domain_name, volume_name, volume_xml
from hostler.agent.messages import Image, Order

__all__ = [
    "OWN",
    "find_pool",
    "find_volume",
    "has_folder",
    "lacks_volume",
    "make_volumes",
    "pool_offered",
    "remove_volumes",
]

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
