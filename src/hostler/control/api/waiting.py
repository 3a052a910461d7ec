"""Waiting for what was asked for: until an operation has ended, or until somebody decided about a VM."""

from __future__ import annotations

import time

from hostler.control.api.calls import Call
from hostler.control.api.shapes import VmChanged
from hostler.control.books import ledger
from hostler.control.books.ledger import Stored
from hostler.control.services.gangs import counting_stopped
from hostler.control.services.showing import show_operation, show_vm
from hostler.control.store import Connection, operations
from hostler.control.vms.state import Vm

__all__ = ["is_refused", "settled", "verdict"]

_LOOK_S = 5.0  # news is told; this is for what might get lost


async def settled(call: Call, changed: VmChanged, wait_s: float) -> VmChanged:
    """Return a change as it is when its operation has ended, or when the time is over."""
    if wait_s <= 0 or changed.operation.state != "pending":
        return changed

    def look(connection: Connection) -> VmChanged:
        row = operations.get(connection, changed.operation.id)
        stored = ledger.load(connection, changed.vm.id)
        gathers = counting_stopped(connection, call.context.books.gathers)
        return VmChanged(vm=show_vm(stored, gathers), operation=show_operation(row))

    end = time.monotonic() + wait_s
    with call.context.books.watch("vm", changed.vm.id) as news:
        while True:
            changed = await call.read(look)
            left = end - time.monotonic()
            if changed.operation.state != "pending" or left <= 0 or call.context.stopping.is_set():
                return changed
            await news.wait(min(left, _LOOK_S))


async def verdict(call: Call, identity: str) -> Stored | None:
    """Return a VM as soon as it was decided, or is gone; None if nobody decides in time."""
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


def is_refused(vm: Vm) -> bool:
    """Say whether a VM went because nobody had room for it at once."""
    return vm.is_gone and vm.fails_unplaced and bool(vm.why)
