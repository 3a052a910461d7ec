"""Operations that a caller waits for: polled until they end, with the error of one that failed.

``Client.wait`` only waits. Here the caller inspects the subject after each poll, to show progress, and gets the error
that its command or program should end with. Hints name the command that shows more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hostler.control.client.errors import OperationFailedError, StillUnderWayError
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.control.client.client import Client
    from hostler.control.schemas import Operation, Vm

__all__ = ["change_failure", "operation_failure", "watch_operation"]

_POLL_S = 1  # of one long poll: as often the subject is looked at


def watch_operation(client: Client, operation: Operation, until: float, look: Callable[[], None]) -> Operation:
    """Poll an operation until it ends or the time is over, and call ``look`` after each poll.

    It is polled once even if no time is left, because another operation may have used the time.
    """
    look()
    while operation.state == "pending":
        is_over = time.monotonic() >= until
        operation = client.operation(operation.id, wait_s=0 if is_over else _POLL_S)
        if is_over:
            break
        if operation.state == "pending":
            look()
    return operation


def change_failure(operation: Operation, vm: Vm) -> HostlerError | None:
    """Return the error of a command that waited for a change of a VM; None if the change is done."""
    if operation.state == "pending" and vm.state == "pending" and vm.why:
        hint = f"it still waits for room; 'hostler vm explain {vm.project}/{vm.name}' says what would help"
        return OperationFailedError(f"{vm.project}/{vm.name} is not placed: {vm.why}", hint=hint)
    return operation_failure(operation, vm)


def operation_failure(operation: Operation, vm: Vm | None) -> HostlerError | None:
    """Return the error of an operation that was waited for, about this VM if there is one; None if it succeeded."""
    what = f"{operation.kind} of {vm.project}/{vm.name}" if vm is not None else f"operation {operation.id}"
    if operation.state == "failed":
        look = f"'hostler operation get {operation.id}' shows what it is about"
        hint = _where_to_look(vm) if vm is not None else look
        return OperationFailedError(f"{what} failed: {operation.error or 'no reason given'}", hint=hint)
    if operation.state == "pending":
        why = vm.blocker if vm is not None else ""
        state = f" (it is {vm.state}{f': {why}' if why else ''})" if vm is not None else ""
        hint = f"it continues; 'hostler operation wait {operation.id}' waits for it"
        return StillUnderWayError(f"{what} is still in progress{state}", hint=hint)
    return None


def _where_to_look(vm: Vm) -> str:
    """Return where to learn more about a failed change. An explanation covers placement only."""
    name = f"{vm.project}/{vm.name}"
    if vm.state == "pending":
        return f"it waits for room; 'hostler vm explain {name}' says what would help"
    if vm.state == "failed":
        return f"'hostler vm explain {name}' says what to do, 'hostler vm events {name}' what happened"
    return f"it is {vm.state}; 'hostler vm events {name}' says what happened"
