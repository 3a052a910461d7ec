"""The driver on libvirt: VMs are persistent domains, found again by their UUID and our mark in their metadata.

Works on any hypervisor behind libvirt that runs full machines. It is tested on ``test:///default``, libvirt's own
simulator, and on ``qemu:///system``. It migrates nothing, and resizes stopped VMs only: libvirt grows a running one up
to a maximum that would have to be known, and paid for, from the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from hostler.agent.driver import (
    BlockedError,
    DriverError,
    HaltRehearsal,
    Landing,
    ObservedVm,
    PermanentError,
    Power,
    StorageUnavailableError,
    UnsupportedError,
)
from hostler.agent.drivers.libvirt.connection import Handle, LibvirtThread
from hostler.agent.drivers.libvirt.domain_processes import DomainProcesses, pid_files_of
from hostler.agent.drivers.libvirt.domain_xml import (
    NAMESPACE,
    domain_kind,
    domain_uuid,
    domain_xml,
    marked_vm,
    pools_of,
    volumes_of,
)
from hostler.agent.drivers.libvirt.storage import (
    check_volumes,
    find_pool,
    lacks_volume,
    make_volumes,
    pool_offered,
    remove_volumes,
    unavailable_pools,
)
from hostler.agent.drivers.machine.allowlist import check_bridge, under_roots
from hostler.agent.drivers.machine.capacity import memory_offered
from hostler.agent.messages import Capabilities, HostSize, Order

__all__ = ["LibvirtDriver"]

T = TypeVar("T")

_KIB, _MIB = 2**10, 2**20
_LOOK_S = 0.5  # between looks whether a guest has ended

# By virDomainState: no state, running, blocked, paused, shutting down, off, crashed, asleep by its own will.
_POWERS: tuple[Power, ...] = ("running", "running", "running", "paused", "running", "stopped", "stopped", "running")
_CRASHED = 6
_PASTS = ("MANAGED_SAVE", "SNAPSHOTS_METADATA", "CHECKPOINTS_METADATA")


class LibvirtDriver:
    """The driver. ``storages`` are pools by the name that the control plane uses; ``pool`` is for all other disks.

    ``marks_file`` keeps how pools are known again (``storage``).
    """

    name = "libvirt"

    def __init__(
        self,
        uri: str = "qemu:///system",
        *,
        pool: str = "default",
        storages: Mapping[str, str] = MappingProxyType({}),
        image_roots: Sequence[Path] = (),
        bridges: Sequence[str] = (),
        acceleration: Literal["auto", "kvm", "tcg"] = "auto",
        marks_file: Path | None = None,
    ) -> None:
        self._thread = LibvirtThread(uri)
        self._pools = {"": pool, **storages}
        self._marks_file = marks_file
        self._roots = tuple(image_roots)
        self._bridges = tuple(bridges)
        self._has_limits = urlsplit(uri).path != "/session"  # a user's own daemon may not limit processors
        self._acceleration = acceleration
        self._kind = ""
        self._processes = DomainProcesses(pid_files_of(uri))
        self._capabilities = Capabilities(pause=True, bridges=bool(bridges))

    @property
    def capabilities(self) -> Capabilities:
        """Say what works here: disks do where there is a running storage pool, which opening finds out."""
        return self._capabilities

    async def open(self) -> None:
        """Connect, and find out what is behind the connection."""
        await self._thread.open()
        has_pool = await self._thread.call(lambda connection: find_pool(connection, self._pools[""]) is not None)
        described = await self._thread.call(lambda connection: str(connection.getCapabilities()))
        self._kind = domain_kind(described, self._acceleration)
        self._capabilities = msgspec.structs.replace(self._capabilities, disks=has_pool)

    async def close(self) -> None:
        """Disconnect; domains run on."""
        await self._thread.close()

    async def size(self) -> HostSize:
        """Return the host's processors and memory, and what its storage pool holds in all."""
        return await self._thread.call(self._size)

    async def find(self) -> list[ObservedVm]:
        """Return every domain; those without our mark are listed by UUID, and are not ours.

        What is left of a VM whose local disk is gone cannot run: it is absent until the disk comes back.
        """

        def work(connection: Handle) -> list[ObservedVm]:
            gone = self._without_local_disk(connection)
            return [found for found in self._find(connection) if found.power != "stopped" or found.vm not in gone]

        return await self._thread.call(work)

    async def unavailable(self) -> dict[str, str]:
        """Return the pools that do not run or lack their mark; of the pool for local disks, once it was seen to run."""
        return await self._thread.call(self._unavailable)

    async def create(self, order: Order) -> None:
        """Make volumes, then define the domain; one that is there is left alone, unless a local disk of it is gone."""
        order = self._checked(order)

        def work(connection: Handle) -> None:
            domain = self._domain_or_none(connection, order.vm)
            if domain is None or (not domain.isActive() and order.vm in self._without_local_disk(connection)):
                self._check_storages(connection, order)
                self._define(connection, order, may_make=not order.has_disks)

        await self._thread.call(work)

    async def start(self, vm: str) -> None:
        """Let it run, once its volumes are known to be what was made; one that is paused stays so."""

        def work(connection: Handle) -> None:
            domain = self._domain(connection, vm)
            if domain.state()[0] == _CRASHED:
                domain.destroy()
            if not domain.isActive():
                check_volumes(connection, volumes_of(domain.XMLDesc(0)), self._roots)
                domain.create()

        await self._thread.call(work)

    async def stop(self, vm: str, *, grace_s: float) -> None:
        """Ask the guest to end; end it when it has not, cannot be asked, or is paused."""
        is_asked = grace_s > 0 and await self._on(vm, self._ask_to_end)
        waited_s = 0.0
        while is_asked and waited_s < grace_s and await self._on(vm, lambda domain: bool(domain.isActive())):
            await asyncio.sleep(min(_LOOK_S, grace_s - waited_s))
            waited_s += _LOOK_S
        await self._on(vm, _end)

    async def find_running(self) -> list[ObservedVm]:
        """Return every domain, and remember which processes they are; no disk is looked at."""
        found = await self._thread.call(self._find)
        await self._processes.look({vm.vm: vm.detail for vm in found if vm.is_ours and vm.power != "stopped"})
        return found

    async def rehearse_halt(self, vms: Collection[str]) -> HaltRehearsal:
        """Try out whether their processes can be ended."""
        return self._processes.rehearse(vms)

    async def halt(self, vms: Collection[str], *, polite_s: float, reap_s: float) -> dict[str, str]:
        """End the processes of domains; libvirt ends those that have none that can be seen, in its own time."""
        failed, unseen = await self._processes.end_all(vms, polite_s=polite_s, reap_s=reap_s)
        late = asyncio.get_running_loop().time() + reap_s  # for all of them: libvirt ends one after the other
        for vm in unseen:
            try:
                async with asyncio.timeout_at(late):
                    await self._on(vm, _end)
            except DriverError as error:
                failed[vm] = f"libvirt has not ended {vm}: {error.message}"
            except TimeoutError:
                failed[vm] = f"libvirt has not ended {vm} in time"
        return failed

    async def pause(self, vm: str) -> None:
        """Stop its processors."""
        await self._on(vm, lambda domain: _switch(domain, "running", "paused", domain.suspend))

    async def resume(self, vm: str) -> None:
        """Let its processors run again."""
        await self._on(vm, lambda domain: _switch(domain, "paused", "running", domain.resume))

    async def resize(self, vm: str, order: Order) -> None:
        """Redefine a stopped VM; a running VM that has its size already is no error."""
        order = self._checked(order)

        def work(connection: Handle) -> None:
            domain = self._domain(connection, vm)
            if not domain.isActive():
                self._define(connection, order, may_make=False)
            elif not _has_size(domain, order):
                raise UnsupportedError(f"{vm} runs and this driver resizes stopped VMs only", hint="stop it first")

        await self._thread.call(work)

    async def delete(self, vm: str, *, keeps_shared: bool = False) -> None:
        """End it, undefine it and remove its volumes, also those that a crash left without a domain.

        A pool that is both shared and for local disks counts as shared: what is kept in vain can be removed later.
        """
        kept = {pool for storage, pool in self._pools.items() if storage} if keeps_shared else set()

        def work(connection: Handle) -> None:
            domain = self._domain_or_none(connection, vm)
            if domain is not None:
                self._check_pools(connection, domain, without=kept)
                _end(domain)
                self._undefine(domain)
            remove_volumes(connection, vm, set(self._pools.values()) - kept)

        await self._thread.call(work)

    async def await_landing(self, order: Order) -> Landing:
        """Refuse."""
        raise UnsupportedError("the driver libvirt does not migrate VMs", hint="stop the VM, migrate it, and start it")

    async def send(self, vm: str, landing: Landing) -> None:
        """Refuse."""
        raise UnsupportedError("the driver libvirt does not migrate VMs", hint="stop the VM, migrate it, and start it")

    async def _on(self, vm: str, work: Callable[[Handle], T]) -> T:
        return await self._thread.call(lambda connection: work(self._domain(connection, vm)))

    def _checked(self, order: Order) -> Order:
        """Return the order with real paths; refuse what this driver cannot give before anything is made."""
        if order.disks and not self._capabilities.disks:
            raise UnsupportedError(
                f"the storage pool {self._pools['']!r} does not run", hint="order a diskless VM, or start the pool"
            )
        if order.cpu_count < 1 or order.memory_bytes < _MIB:
            raise PermanentError("a VM needs a processor and 1 MiB of memory", hint="order more")
        if order.devices:
            raise UnsupportedError("the driver libvirt gives no devices", hint="order the VM without devices")
        check_bridge(order.network, self._bridges)
        if not order.kernel:
            return order
        kernel = str(under_roots(order.kernel, self._roots))
        initrd = str(under_roots(order.initrd, self._roots)) if order.initrd else ""
        return msgspec.structs.replace(order, kernel=kernel, initrd=initrd)

    def _define(self, connection: Handle, order: Order, *, may_make: bool) -> None:
        volumes = make_volumes(connection, order, self._pools, self._roots, may_make=may_make)
        described = domain_xml(order, kind=self._kind, volumes=volumes, has_limits=self._has_limits)
        connection.defineXML(described)

    def _unavailable(self, connection: Handle) -> dict[str, str]:
        return unavailable_pools(connection, self._pools, self._marks_file, needs_local=self._capabilities.disks)

    def _check_storages(self, connection: Handle, order: Order) -> None:
        """Refuse to touch what lies in an unavailable pool."""
        unavailable = self._unavailable(connection) if order.disks else {}
        for storage in sorted({disk.storage for disk in order.disks} & unavailable.keys()):
            raise StorageUnavailableError(unavailable[storage], hint="it is tried again")

    def _without_local_disk(self, connection: Handle) -> set[str]:
        """Return the VMs that miss a local disk although its pool is there."""
        local = find_pool(connection, self._pools[""])
        domains = connection.listAllDomains(0) if local is not None else ()
        gone = {self._mark(domain) for domain in domains if lacks_volume(local, volumes_of(domain.XMLDesc(0)))} - {""}
        return gone if gone and "" not in self._unavailable(connection) else set()

    def _check_pools(self, connection: Handle, domain: Handle, *, without: Set[str]) -> None:
        """Refuse to lose sight of disks that cannot be removed now."""
        for name in sorted(pools_of(domain.XMLDesc(0)) - without):
            if find_pool(connection, name) is None:
                raise BlockedError(
                    f"disks of {domain.name()} lie in the storage pool {name!r}, which is not running",
                    hint=f"virsh pool-start {name}",
                )

    def _undefine(self, domain: Handle) -> None:
        """Remove a domain with what libvirt knows about its past; not every hypervisor knows all of that."""
        flags = [self._thread.constant(f"DOMAIN_UNDEFINE_{flag}") for flag in _PASTS]
        try:
            domain.undefineFlags(sum(flags))
        except Exception as error:
            if not self._thread.is_error(error, "INVALID_ARG", "ARGUMENT_UNSUPPORTED"):
                raise
            domain.undefineFlags(sum(flags[:-1]))

    def _domain(self, connection: Handle, vm: str) -> Handle:
        domain = self._domain_or_none(connection, vm)
        if domain is None:
            raise DriverError(f"there is no VM {vm} on this host", hint="create it first")
        return domain

    def _domain_or_none(self, connection: Handle, vm: str) -> Handle | None:
        """Return the VM's domain; one that has its UUID but not our mark is never touched."""
        try:
            domain = connection.lookupByUUIDString(domain_uuid(vm))
        except Exception as error:
            if self._thread.is_error(error, "NO_DOMAIN"):
                return None
            raise
        if self._mark(domain) != vm:
            raise BlockedError(
                f"the domain {domain.name()} has the UUID of {vm} but was not made for it",
                hint="it is left alone: remove it with the program that made it",
            )
        return domain

    def _mark(self, domain: Handle) -> str:
        try:
            kind = self._thread.constant("DOMAIN_METADATA_ELEMENT")
            return marked_vm(domain.metadata(kind, NAMESPACE, 0))
        except Exception as error:
            if self._thread.is_error(error, "NO_DOMAIN_METADATA"):
                return ""
            raise

    def _size(self, connection: Handle) -> HostSize:
        _, memory_mib, cpus, *_ = connection.getInfo()
        pool = find_pool(connection, self._pools[""])
        disk_bytes = pool_offered(pool) if pool is not None else 0
        return HostSize(cpu_millis=cpus * 1000, memory_bytes=memory_offered(memory_mib * _MIB), disk_bytes=disk_bytes)

    def _find(self, connection: Handle) -> list[ObservedVm]:
        found = []
        for domain in connection.listAllDomains(0):
            try:
                found.append(self._found(domain))
            except Exception as error:
                if not self._thread.is_error(error, "NO_DOMAIN"):  # it went away meanwhile
                    raise
        return found

    def _found(self, domain: Handle) -> ObservedVm:
        state, most_kib, _, cpus, _ = domain.info()
        marked = self._mark(domain)
        is_ours = bool(marked) and domain_uuid(marked) == domain.UUIDString()
        return ObservedVm(
            vm=marked if is_ours else domain.UUIDString(),
            power=_power(state),
            is_ours=is_ours,
            cpu_count=cpus,
            memory_bytes=most_kib * _KIB,
            detail=domain.name(),
        )

    def _ask_to_end(self, domain: Handle) -> bool:
        if _power(domain.state()[0]) != "running":
            return False
        try:
            domain.shutdown()
        except Exception as error:
            if self._thread.is_error(error, "NO_SUPPORT", "OPERATION_FAILED", "OPERATION_INVALID"):
                return False
            raise
        return True


def _power(state: int) -> Power:
    return _POWERS[state] if state < len(_POWERS) else "running"


def _has_size(domain: Handle, order: Order) -> bool:
    _, most_kib, _, cpus, _ = domain.info()
    return bool(cpus == order.cpu_count and most_kib == -(-order.memory_bytes // _KIB))


def _end(domain: Handle) -> None:
    if domain.isActive():
        domain.destroy()


def _switch(domain: Handle, before: Power, then: Power, act: Callable[[], object]) -> None:
    now = _power(domain.state()[0])
    if now == before:
        act()
    elif now != then:
        raise PermanentError(f"{domain.name()} is {now} and not {before}", hint="start it first")
