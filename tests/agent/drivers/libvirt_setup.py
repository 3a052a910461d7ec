"""Libvirt's own test hypervisor as a ``DriverSetup``: a real API, domains that live as long as a connection."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hostler.agent.drivers.libvirt.domain_xml import domain_name
from hostler.agent.drivers.libvirt.driver import LibvirtDriver
from hostler.agent.messages import Disk, Order

URI = "test:///default"
POOL = "default-pool"
SHARED_POOL = "shared-pool"
_SHARED_XML = f"<pool type='dir'><name>{SHARED_POOL}</name><target><path>/{SHARED_POOL}</path></target></pool>"


class LibvirtSetup:
    """All connections of a process to ``test:///default`` see one host; ours here keeps it between drivers."""

    def __init__(
        self,
        folder: Path,
        *,
        pool: str = POOL,
        storages: dict[str, str] | None = None,
        bridges: tuple[str, ...] = ("br0",),
    ) -> None:
        self.folder = folder
        self.connection: Any = import_module("libvirt").open(URI)
        self._pool = pool
        self._bridges = bridges
        self._storages = storages or {"shared": SHARED_POOL}
        if SHARED_POOL not in self.connection.listStoragePools():
            self.connection.storagePoolDefineXML(_SHARED_XML, 0).create(0)
        self._wipe()  # a failed test may have left something: an error that is kept keeps its host

    def driver(self, host: str = "one") -> LibvirtDriver:
        return LibvirtDriver(
            URI,
            pool=self._pool,
            storages=self._storages,
            image_roots=[self.folder],
            bridges=self._bridges,
            marks_file=self.folder / f"{host}.marks",
        )

    def order(self, vm: str, generation: int = 1) -> Order:
        return Order(vm=vm, generation=generation, power="running", memory_bytes=2**28)

    def shared_disk(self) -> Disk:
        return Disk(size_bytes=2**20, storage="shared")

    def has_shared(self, vm: str) -> bool:
        return any(name.startswith(f"{domain_name(vm)}-") for name in self.volumes(SHARED_POOL))

    def given(self, vm: str) -> tuple[str, tuple[str, ...]]:
        domain = ElementTree.fromstring(self.connection.lookupByName(domain_name(vm)).XMLDesc(0))
        bridges = [source.get("bridge", "") for source in domain.iterfind("devices/interface/source")]
        return "".join(bridges), tuple(device.tag for device in domain.iterfind("devices/hostdev"))

    async def clean(self) -> None:
        self._wipe()
        self.connection.close()

    def _wipe(self) -> None:
        for domain in self.connection.listAllDomains(0):
            if domain.name() != "test":
                if domain.isActive():
                    domain.destroy()
                domain.undefine()
        for name in (POOL, SHARED_POOL):
            for volume in self.connection.storagePoolLookupByName(name).listAllVolumes(0):
                volume.delete(0)

    def volumes(self, pool: str = POOL) -> list[str]:
        """Return the names of volumes, without those that mark a pool."""
        names = self.connection.storagePoolLookupByName(pool).listVolumes()
        return sorted(name for name in names if not name.startswith("hostler-storage-"))
