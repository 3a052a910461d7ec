"""Which devices of hosts VMs have: read from what their claims say. A work of the store, and pure but for that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostler.control.books import ledger
from hostler.control.store import Connection, vms
from hostler.control.vms.state import Booking, Claim, Vm

__all__ = ["devices_in_use", "taken_devices"]

_HAS_DEVICES = b'"devices":['  # what a VM that has none does not hold: most need not be decoded


def taken_devices(connection: Connection, hosts: Sequence[str]) -> dict[str, set[int]]:
    """Return by host the numbers of the devices that VMs have there, alone or shared."""
    rows = vms.of_hosts(connection, hosts)
    return devices_in_use(ledger.stored(row).vm for row in rows if _HAS_DEVICES in row.status)


def devices_in_use(found: Iterable[Vm]) -> dict[str, set[int]]:
    """Return by host the numbers of the devices that some VMs have; one that moves has them at both ends."""
    taken: dict[str, set[int]] = {}
    for vm in found:
        places: tuple[tuple[Booking | None, Claim | None], ...] = ((vm.home, vm.run), (vm.other, vm.move))
        for booking, claim in places:
            if booking is not None and claim is not None and claim.is_bound:
                taken.setdefault(booking.host, set()).update(claim.devices)
    return taken
