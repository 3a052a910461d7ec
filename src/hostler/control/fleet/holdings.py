"""What a host has that is not booked there: remains of VMs of ours, strangers, and what they take of it.

Worked out from what its agent tells, for ``registering`` and ``taking``. Pure, but for a look at what is to be removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from hostler.agent.limits import MOST_UNKNOWN
from hostler.agent.messages import Taken, VmReport
from hostler.control.books.ledger import Stored
from hostler.control.fleet.hosts import HostBody
from hostler.control.fleet.ordering import count_teardown
from hostler.control.store import Connection
from hostler.control.vms.state import Vm
from hostler.model import CPU, MEMORY, STORAGE, Amounts, amounts
from hostler.model.quantities import MAX_AMOUNT

__all__ = ["is_booked", "remains_of", "strangers_of", "taken_of", "without_spent_leave"]


def is_booked(vm: Vm, host: str) -> bool:
    """Say whether a host has, or is to have, a VM."""
    return any(booking is not None and booking.host == host for booking in (vm.home, vm.other))


def remains_of(
    kept: Sequence[str], told: Mapping[str, VmReport], loaded: Mapping[str, Stored], host: str
) -> tuple[str, ...]:
    """Return the VMs of ours that a host has something of although nothing is booked there for them."""
    found = {vm for vm, stored in loaded.items() if vm in told and told[vm].state != "absent"}
    return tuple(sorted({*kept, *(vm for vm in found if not is_booked(loaded[vm].vm, host))}))


def strangers_of(kept: Iterable[str], told: Mapping[str, VmReport], known: Collection[str]) -> tuple[str, ...]:
    """Return the VMs that a host has by its own records and that no row knows: a backup may be older than they are."""
    found = {vm for vm, report in told.items() if vm not in known and report.state != "absent"}
    return tuple(sorted({*kept, *found})[:MOST_UNKNOWN])


def taken_of(told: Iterable[Taken], booked: Collection[str]) -> Amounts:
    """Return what VMs take of a host that are not booked there: what is booked, the engine counts already."""
    found = [one for one in told if one.vm not in booked]
    return amounts(
        {
            name: min(sum(getattr(one, place) for one in found), MAX_AMOUNT)
            for name, place in ((CPU, "cpu_millis"), (MEMORY, "memory_bytes"), (STORAGE, "disk_bytes"))
        }
    )


def without_spent_leave(connection: Connection, host: str, body: HostBody, gone: Collection[str]) -> HostBody:
    """Take the leave to tear down many VMs back once none of them is left."""
    if not body.may_tear_down or body.refused_teardown or count_teardown(connection, host, body, without=gone):
        return body
    return msgspec.structs.replace(body, may_tear_down=0)
