"""Which devices of hosts VMs use, from their claims; and hosts whose devices the engine cannot hold.

Works of the store and pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostler.control.books import ledger
from hostler.control.books.decisions import LEADER
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.hosts.host_problems import update_reported_problems
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.store import Connection
from hostler.control.store.rows import hosts, vms
from hostler.control.vms.state import Booking, Claim, Vm

__all__ = ["devices_in_use", "leave_devices_out", "taken_devices"]

_HAS_DEVICES = b'"devices":['  # what a VM that has none does not hold: most need not be decoded


def taken_devices(connection: Connection, hosts: Sequence[str]) -> dict[str, set[int]]:
    """Return by host the numbers of the devices that VMs have there, alone or shared."""
    rows = vms.of_hosts(connection, hosts)
    return devices_in_use(ledger.read_row(row).vm for row in rows if _HAS_DEVICES in row.status)


def devices_in_use(found: Iterable[Vm]) -> dict[str, set[int]]:
    """Return by host the numbers of the devices that some VMs have; one that moves has them at both ends."""
    taken: dict[str, set[int]] = {}
    for vm in found:
        places: tuple[tuple[Booking | None, Claim | None], ...] = ((vm.home, vm.run), (vm.other, vm.move))
        for booking, claim in places:
            if booking is not None and claim is not None and claim.is_bound:
                taken.setdefault(booking.host, set()).update(claim.devices)
    return taken


def leave_devices_out(connection: Connection, rejected: Mapping[str, str], *, now_ns: int) -> None:
    """Let hosts, by id, count without devices whose names the engine had no room for; they say why.

    Registrations check for room first. Several that come at once may all find the last of it.
    """
    for identity, why in rejected.items():
        row = hosts.find(connection, identity)
        if row is None or row.deleted_ns is not None:
            continue
        known = read_body(row)
        if known.size.devices:
            size = msgspec.structs.replace(known.size, devices=())
            body = msgspec.structs.replace(known, size=size, refused_size=why, is_without_devices=True)
            body, text = update_reported_problems(known, body, now_ns)
            announce(connection, row, row, body, actor=LEADER, now_ns=now_ns, text=text)
