"""After a restore: VMs of the backup get orders again once every host has said what it has. Works of the store.

A VM may have been moved, or started elsewhere, after the backup was made: its host of then must not start it while
another one runs it. Hosts that have not registered since are waited for, or proved dead, or deleted; what a host has of
a VM that is booked elsewhere are remains, and waited for until they are gone.
"""

from __future__ import annotations

import msgspec

from hostler.control.books import ledger
from hostler.control.books.deciding import LEADER
from hostler.control.fleet.announcing import announce, write_changes
from hostler.control.fleet.hosts import is_unregistered, read_body
from hostler.control.store import Connection, hosts, placements
from hostler.control.vms.moving import given_up
from hostler.control.vms.orders import is_of_a_backup
from hostler.control.vms.state import Booking, Change, Vm

__all__ = ["has_waiting", "missing_hosts", "order_again", "set_aside"]

_OF_THEN = "of then"  # stands for the agent that had registered when the backup was made
_replace = msgspec.structs.replace


def has_waiting(connection: Connection) -> bool:
    """Say whether there are VMs of a backup that are not ordered again."""
    return any(row.seq < 0 for row in placements.all_rows(connection))


def missing_hosts(connection: Connection) -> list[str]:
    """Return the names of the hosts that have not registered since the restore."""
    return sorted(row.name for row in hosts.all_alive(connection) if is_unregistered(row))


def set_aside(connection: Connection, *, now_ns: int) -> None:
    """Keep VMs away from hosts that have not registered since the restore: by the log of the backup they take some."""
    for row in hosts.all_alive(connection):
        if is_unregistered(row):
            as_known = _replace(row, agent=_OF_THEN)
            announce(connection, as_known, row, read_body(row), actor=LEADER, now_ns=now_ns)


def order_again(connection: Connection, *, now_ns: int) -> int:
    """Let VMs of a backup be ordered again where that is safe; return how many that were."""
    waiting = {row.vm for row in placements.all_rows(connection) if row.seq < 0}
    rows = hosts.all_alive(connection)
    if any(map(is_unregistered, rows)):
        return 0
    elsewhere = {vm for row in rows for vm in read_body(row).remains}
    free = ledger.load_many(connection, waiting - elsewhere)
    changes = [(stored, _ordered_again(stored.vm)) for stored in free.values()]
    return write_changes(connection, changes, actor=LEADER, now_ns=now_ns)


def _ordered_again(vm: Vm) -> Change:
    """Believe what the backup says of a VM; of one that was moving, first let the second host go.

    Either side may have it by now, so the one that loses has to say that it has not before the other is told anything.
    """
    phase = vm.moving.phase if vm.moving is not None else ""
    if vm.other is not None and vm.home is not None and vm.power != "absent":
        if is_of_a_backup(vm.other):
            return _let_go(vm, vm.other)
        if phase in ("cleaning", "aborting"):
            return Change(vm=vm)  # it was told so, and has not answered
    generation = vm.generation + 1
    home, other = _believed(vm.home, generation), _believed(vm.other, generation)
    told = tuple(booking.host for booking in (home, other) if booking is not None)
    vm = _replace(vm, home=home, other=other, generation=generation, why="")
    return Change(vm=vm, hosts=told, notes=("all hosts have said what they have: it is ordered again",))


def _let_go(vm: Vm, other: Booking) -> Change:
    generation = vm.generation + 1
    vm = _replace(vm, other=_believed(other, generation), generation=generation)
    if vm.moving is not None and vm.moving.phase in ("preparing", "copying"):
        return given_up(vm, "it is restored from a backup")
    return Change(vm=vm, hosts=(other.host,))


def _believed(booking: Booking | None, generation: int) -> Booking | None:
    if booking is None or not is_of_a_backup(booking):
        return booking
    return _replace(booking, seq=0, generation=generation)
