"""After a restore: VMs get orders again once every host has reported what it has. Works of the store.

A VM may have been moved, or started elsewhere, after the backup. Its former host must not start it while another one
runs it. So hosts that have not registered since are waited for, or declared dead, or deleted. What a host has of a VM
that is booked elsewhere are remains, which must be gone first.
"""

from __future__ import annotations

import msgspec

from hostler.control.books import ledger
from hostler.control.books.decisions import LEADER
from hostler.control.fleet.hosts.host_body import is_unregistered, read_body
from hostler.control.fleet.hosts.host_writes import announce, write_changes
from hostler.control.store import Connection
from hostler.control.store.rows import hosts, placements
from hostler.control.vms.moves import abort_move
from hostler.control.vms.orders import is_of_a_backup
from hostler.control.vms.state import Booking, Vm, VmChange

__all__ = ["has_waiting", "missing_hosts", "order_again", "set_aside"]

_OF_THEN = "of then"  # stands for the agent that had registered when the backup was made
_replace = msgspec.structs.replace


def has_waiting(connection: Connection) -> bool:
    """Say whether restored VMs still wait for orders."""
    return any(row.seq < 0 for row in placements.all_rows(connection))


def missing_hosts(connection: Connection) -> list[str]:
    """Return the names of the hosts that have not registered since the restore."""
    return sorted(row.name for row in hosts.all_alive(connection) if is_unregistered(row))


def set_aside(connection: Connection, *, now_ns: int) -> None:
    """Keep VMs away from hosts that have not registered since the restore: by the restored log, they take some."""
    for row in hosts.all_alive(connection):
        if is_unregistered(row):
            as_known = _replace(row, agent=_OF_THEN)
            announce(connection, as_known, row, read_body(row), actor=LEADER, now_ns=now_ns)


def order_again(connection: Connection, *, now_ns: int) -> int:
    """Resume orders of restored VMs that are safe; return their number."""
    waiting = {row.vm for row in placements.all_rows(connection) if row.seq < 0}
    rows = hosts.all_alive(connection)
    if any(map(is_unregistered, rows)):
        return 0
    elsewhere = {vm for row in rows for vm in read_body(row).remains}
    free = ledger.load_many(connection, waiting - elsewhere)
    changes = [(stored, _ordered_again(stored.vm)) for stored in free.values()]
    return write_changes(connection, changes, actor=LEADER, now_ns=now_ns)


def _ordered_again(vm: Vm) -> VmChange:
    """Trust the backup about a VM; if it was moving, first let the second host remove it.

    Either side may have it by now, so the side that loses must report its absence before the other gets an order.
    """
    phase = vm.moving.phase if vm.moving is not None else ""
    if vm.other is not None and vm.home is not None and vm.power != "absent":
        if is_of_a_backup(vm.other):
            return _let_go(vm, vm.other)
        if phase in ("cleaning", "aborting"):
            return VmChange(vm=vm)  # it was told so, and has not answered
    generation = vm.generation + 1
    home, other = _believed(vm.home, generation), _believed(vm.other, generation)
    told = tuple(booking.host for booking in (home, other) if booking is not None)
    vm = _replace(vm, home=home, other=other, generation=generation, why="")
    return VmChange(vm=vm, hosts=told, notes=("all hosts have reported: it gets orders again",))


def _let_go(vm: Vm, other: Booking) -> VmChange:
    generation = vm.generation + 1
    vm = _replace(vm, other=_believed(other, generation), generation=generation)
    if vm.moving is not None and vm.moving.phase in ("preparing", "copying"):
        return abort_move(vm, "it is restored from a backup")
    return VmChange(vm=vm, hosts=(other.host,))


def _believed(booking: Booking | None, generation: int) -> Booking | None:
    if booking is None or not is_of_a_backup(booking):
        return booking
    return _replace(booking, seq=0, generation=generation)
