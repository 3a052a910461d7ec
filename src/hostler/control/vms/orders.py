"""What a host is ordered to do with a VM, from what is booked; every replica computes the same. Pure."""

from __future__ import annotations

import msgspec

from hostler.agent.messages import Disk, Image, Migration, Order, VmNetwork
from hostler.control.vms.spec import DiskSpec, Size
from hostler.control.vms.state import Booking, Claim, Power, Vm
from hostler.model.resources import STORAGE, parse_resource

__all__ = ["is_of_a_backup", "order_for", "order_for_remains", "power_at_home"]

_replace = msgspec.structs.replace
_MADE = ("stopped", "running", "paused")  # what a host reports of a VM that it has


def power_at_home(vm: Vm) -> Power:
    """Return the power state that is ordered at home: only what is booked may run.

    A VM without disks that makes room may start anywhere. With disks it stays, since some host must remove them in the
    end.
    """
    if vm.power == "absent":
        return "absent"
    if vm.is_evicted:
        return "stopped" if vm.spec.disks else "absent"
    if not vm.has_room:
        return "stopped"
    return vm.power


def order_for(vm: Vm, host: str) -> Order | None:
    """Return the order for a host by its id, or None if the VM does not concern that host.

    Also None if the booking is only known from a backup: a host without an order leaves the VM as it is.
    """
    if any(one is not None and one.host == host and is_of_a_backup(one) for one in (vm.home, vm.other)):
        return None
    if vm.home is not None and vm.home.host == host:
        order = _order(vm, vm.run, vm.home.generation, power_at_home(vm), _source_side(vm))
        return _replace(order, since=vm.home.since)
    if vm.other is not None and vm.other.host == host:
        if vm.power == "absent":
            return _order(vm, vm.move, vm.other.generation, "absent", None)
        if vm.moving is not None and vm.moving.phase in ("cleaning", "aborting"):
            return _kept(_order(vm, vm.move, vm.other.generation, "absent", None))
        order = _order(vm, vm.move, vm.other.generation, "running", Migration(is_source=False))
        return _replace(order, since=vm.other.since)
    return None


def is_of_a_backup(booking: Booking) -> bool:
    """Say whether a booking was restored from a backup, and no host has confirmed it since."""
    return booking.seq < 0


def order_for_remains(vm: Vm, host: str) -> Order:
    """Return the order for a host with remains of a VM that is not booked there: it must not run.

    Disks of an existing VM stay. Local disks are all that is left of it. For disks on shared storage, some host must
    know the VM to remove them in the end: this host, until the VM's own host reports that it has the VM.
    """
    if vm.is_gone or not vm.spec.disks:
        return _order(vm, None, vm.generation, "absent", None)
    is_elsewhere = vm.home is not None and vm.home.host != host and vm.reported in _MADE
    if vm.spec.is_movable and is_elsewhere:
        return _kept(_order(vm, None, vm.generation, "absent", None))
    return _order(vm, None, vm.generation, "stopped", None)


def _kept(order: Order) -> Order:
    """Return an order that leaves disks on shared storage to another host; unchanged if there are none."""
    return _replace(order, keeps_shared=any(disk.storage for disk in order.disks))


def _source_side(vm: Vm) -> Migration | None:
    moving = vm.moving
    if moving is None or vm.power == "absent" or not moving.address or moving.phase not in ("copying", "aborting"):
        return None
    return Migration(is_source=True, address=moving.address, secret=moving.secret)


def _order(vm: Vm, claim: Claim | None, generation: int, power: Power, migration: Migration | None) -> Order:
    spec, size = vm.spec, _ordered_size(vm, claim)
    devices = claim.devices if claim is not None else ()
    kinds = [request.kind for request in spec.devices for _ in range(request.count)]
    return Order(
        vm=vm.id,
        generation=generation,
        power=power,
        name=vm.name,
        cpu_count=max(1, -(-size.cpu_millis // 1000)),
        cpu_millis=size.cpu_millis,
        memory_bytes=size.memory_bytes,
        disks=tuple(_disk(disk) for disk in spec.disks),
        network=VmNetwork(kind=spec.network.kind, bridge=spec.network.bridge),
        devices=tuple(f"{kind}:{index}" for kind, index in zip(kinds, devices, strict=False)),
        restarts=vm.restarts,
        migration=migration,
        kernel=spec.kernel,
        initrd=spec.initrd,
        kernel_arguments=spec.kernel_arguments,
        when_silent="stop" if spec.when_lost == "restart" else "keep",
        has_disks=vm.has_disks,
    )


def _ordered_size(vm: Vm, claim: Claim | None) -> Size:
    """Return the ordered cpu and memory: those of the spec, but at most what is booked if the VM runs."""
    return vm.wanted if claim is None or not claim.is_bound else vm.wanted.at_most(claim.size)


def _disk(disk: DiskSpec) -> Disk:
    image = disk.image
    return Disk(
        size_bytes=parse_resource(STORAGE, disk.size),
        image=None if image is None else Image(path=image.path, url=image.url, sha256=image.sha256),
        storage=disk.storage,
    )
