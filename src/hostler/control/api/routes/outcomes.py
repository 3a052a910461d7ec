"""Waiting for results: until an operation has ended, or until a VM is decided."""

from __future__ import annotations

import time

from hostler.control.api.requests.call import ApiCall
from hostler.control.books import ledger
from hostler.control.books.ledger import StoredVm
from hostler.control.schemas import VmChanged
from hostler.control.services.vms.gangs import with_stopped_members
from hostler.control.services.vms.vm_views import show_operation, show_vm
from hostler.control.store import Connection
from hostler.control.store.rows import operations
from hostler.control.vms.state import Vm

__all__ = ["is_rejected", "wait_for_decision", "wait_for_operation"]

_LOOK_S = 5.0  # polls in case a notice gets lost


async def wait_for_operation(call: ApiCall, changed: VmChanged, wait_s: float) -> VmChanged:
    """Return a change when its operation has ended, or when the time is over."""
    if wait_s <= 0 or changed.operation.state != "pending":
        return changed

    def look(connection: Connection) -> VmChanged:
        row = operations.get(connection, changed.operation.id)
        stored = ledger.load(connection, changed.vm.id)
        gathers = with_stopped_members(connection, call.context.books.gathers)
        return VmChanged(vm=show_vm(stored, gathers), operation=show_operation(row))

    end = time.monotonic() + wait_s
    with call.context.books.watch("vm", changed.vm.id) as news:
        while True:
            changed = await call.read(look)
            left = end - time.monotonic()
            if changed.operation.state != "pending" or left <= 0 or call.context.stopping.is_set():
                return changed
            await news.wait(min(left, _LOOK_S))


async def wait_for_decision(call: ApiCall, identity: str) -> StoredVm | None:
    """Return a VM as soon as it is decided or gone; None if there is no decision in time."""
    end = time.monotonic() + call.context.settings.verdict_s
    with call.context.books.watch("vm", identity) as news:
        while True:
            stored = await call.read(lambda connection: ledger.load(connection, identity))
            if not stored.vm.is_undecided:
                return stored
            left = end - time.monotonic()
            if left <= 0 or call.context.stopping.is_set():
                return None
            await news.wait(min(left, _LOOK_S))


def is_rejected(vm: Vm) -> bool:
    """Return whether a VM is gone because it was to be placed at once and no host had room."""
    return vm.is_gone and vm.fails_unplaced and bool(vm.why)
