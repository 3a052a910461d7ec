"""Headers of volumes, looked at before each boot: QEMU opens the files that one names. Used by ``libvirt``.

Root of another host can write to a shared pool. Accepted are only headers that ``qemu-img create`` writes for our
volumes: the same parser as that of the driver ``qemu``. The agent reads a volume itself or, if it may not, through
libvirt. QEMU opens the volume again by its name, so a header that is rewritten after this look is believed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from hostler.agent.drivers.allowed import under_roots
from hostler.agent.drivers.driver import BlockedError, DiskMissingError
from hostler.agent.drivers.libvirt_storage import find_pool, find_volume, has_folder
from hostler.agent.drivers.libvirt_thread import Handle
from hostler.agent.drivers.libvirt_xml import Volume
from hostler.agent.drivers.qcow2_header import read_header, why_not_overlay
from hostler.agent.drivers.qemu_disk_file import open_plain

__all__ = ["check_volumes"]

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
