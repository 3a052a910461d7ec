"""What a host has without a booking: remains of our VMs, VMs that no row knows, and the room that they take.

Computed from what its agent reports, for ``registrations`` and ``reports``. Pure, except for reading which VMs to
remove.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from hostler.agent.messages import MOST_UNKNOWN, Taken, VmReport
from hostler.control.books.ledger import StoredVm
from hostler.control.fleet.agents.host_orders import count_teardown
from hostler.control.fleet.hosts.host_body import HostBody
from hostler.control.store import Connection
from hostler.control.vms.state import Vm
from hostler.model import CPU, MEMORY, STORAGE, Amounts, amounts
from hostler.model.quantities import MAX_AMOUNT

__all__ = ["is_booked", "remains_of", "strangers_of", "unbooked_use", "without_used_permission"]


def is_booked(vm: Vm, host: str) -> bool:
    """Say whether a VM is on a host, or is to be there."""
    return any(booking is not None and booking.host == host for booking in (vm.home, vm.other))


def remains_of(
    kept: Sequence[str], told: Mapping[str, VmReport], loaded: Mapping[str, StoredVm], host: str
) -> tuple[str, ...]:
    """Return our VMs that a host has something of, although they are not booked there."""
    found = {vm for vm, stored in loaded.items() if vm in told and told[vm].state != "absent"}
    return tuple(sorted({*kept, *(vm for vm in found if not is_booked(loaded[vm].vm, host))}))


def strangers_of(kept: Iterable[str], told: Mapping[str, VmReport], known: Collection[str]) -> tuple[str, ...]:
    """Return VMs in the host's own records that no row knows, for example after an older backup was restored."""
    found = {vm for vm, report in told.items() if vm not in known and report.state != "absent"}
    return tuple(sorted({*kept, *found})[:MOST_UNKNOWN])


def unbooked_use(told: Iterable[Taken], booked: Collection[str]) -> Amounts:
    """Return the room that unbooked VMs take; booked room is counted by the engine."""
    found = [one for one in told if one.vm not in booked]
    return amounts(
        {
            name: min(sum(getattr(one, place) for one in found), MAX_AMOUNT)
            for name, place in ((CPU, "cpu_millis"), (MEMORY, "memory_bytes"), (STORAGE, "disk_bytes"))
        }
    )


def without_used_permission(connection: Connection, host: str, body: HostBody, gone: Collection[str]) -> HostBody:
    """Withdraw the permission for a bulk teardown once nothing is left to remove."""
    if not body.may_tear_down or body.refused_teardown or count_teardown(connection, host, body, without=gone):
        return body
    return msgspec.structs.replace(body, may_tear_down=0)
