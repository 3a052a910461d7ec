"""Marks of libvirt's storage pools: an active pool on an empty mount point is not taken for an empty pool.

Libvirt calls a pool of files active whether or not the file system below it is mounted. So a volume whose name is the
mark lies in each such pool. It is made and found by libvirt's own means, with the rights that the agent needs for disks
anyway. Pools that are no folders (LVM, RBD) need no mark: libvirt cannot activate them without their storage.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from hostler.agent.drivers.libvirt_storage import OWN, find_pool, find_volume, has_folder
from hostler.agent.drivers.libvirt_thread import Handle
from hostler.agent.drivers.libvirt_xml import pools_of
from hostler.agent.drivers.storage_marks import StorageMarks

__all__ = ["PoolMark", "unavailable_pools"]

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
