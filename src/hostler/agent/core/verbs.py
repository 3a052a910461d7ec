"""The next verb for one VM, from its order, its record and how it was found: the table at the heart of ``decisions``.

Level-triggered: no history but the record counts, so after any crash the order is reached. Pure.
"""

from __future__ import annotations

import msgspec

from hostler.agent.core.state import DriverVerb, Record
from hostler.agent.driver import ObservedVm
from hostler.agent.messages import Order

__all__ = ["choose", "has_its_size", "is_satisfied", "may_absorb_restarts", "with_disks_made_before"]

_ALIVE = ("running", "paused")


def choose(order: Order, record: Record, found: ObservedVm | None, *, has_landing: bool) -> DriverVerb | None:
    """Return the next verb for a VM; None if there is nothing to do, or another side must act."""
    if order.power == "absent":
        return DriverVerb.DELETE if found is not None else None
    if found is not None and found.is_stray:
        return _choose_for_stray(order, record)
    if _is_target(order):
        return _choose_at_target(found, has_landing=has_landing)
    if found is not None and found.power == "landing":
        return DriverVerb.DELETE  # no source sends it any more, and it belongs here: remove the landing first
    if record.sent >= order.generation and (found is None or found.power not in _ALIVE):
        return None  # it may run elsewhere; only a newer order says that it belongs here
    if found is None:
        return DriverVerb.CREATE
    if order.power == "stopped":
        return _choose_to_stop(order, record, found)
    return _choose_to_run(order, record, found)


def with_disks_made_before(order: Order, record: Record) -> Order:
    """Return an order that says whether its disks were created on this host before: none is created twice."""
    made = record.made
    if made is None or not made.disks or made.generation < order.since:
        return order
    return msgspec.structs.replace(order, has_disks=True)


def is_satisfied(order: Order, record: Record, found: ObservedVm | None) -> bool:
    """Say whether a VM is as ordered."""
    if order.power == "absent" or found is None:
        return order.power == "absent" and found is None
    if _is_source(order):
        return found.power == "left"
    if _is_target(order):
        return found.power == "running"
    is_same_power = found.power == order.power or (
        order.power == "stopped" and found.power == "left" and record.sent < order.generation
    )
    return is_same_power and has_its_size(order, record) and record.restarts >= order.restarts


def has_its_size(order: Order, record: Record) -> bool:
    """Say whether a VM was created, or resized, in the ordered size."""
    return record.made is not None and record.resizing is None and _size(order) == _size(record.made)


def may_absorb_restarts(order: Order, found: ObservedVm | None) -> bool:
    """Say whether the ordered restarts are done: a VM that does not run has stopped, and starts again.

    So a restart happens once: it counts as done when the VM is seen stopped, and that is recorded before the VM is
    started. After a crash before the record, the VM is found stopped again. After a crash behind it, nothing is left to
    do.
    """
    return found is None or found.power not in _ALIVE or order.power in ("stopped", "absent")


def _choose_at_target(found: ObservedVm | None, *, has_landing: bool) -> DriverVerb | None:
    if found is None:
        return DriverVerb.AWAIT_LANDING
    if found.power == "landing":
        return None if has_landing else DriverVerb.AWAIT_LANDING
    return DriverVerb.DELETE if found.power == "left" else None  # once sent away from here, and now coming back


def _choose_for_stray(order: Order, record: Record) -> DriverVerb | None:
    """Return the verb for a VM that runs without its record: its local disk will end with it."""
    made = record.made or order
    if any(not disk.storage for disk in (*order.disks, *made.disks)):
        return None
    if order.power == "stopped":
        return DriverVerb.STOP
    return DriverVerb.RESTART if order.restarts > record.restarts else None


def _choose_to_stop(order: Order, record: Record, found: ObservedVm) -> DriverVerb | None:
    if found.power in _ALIVE:
        return DriverVerb.STOP
    return None if has_its_size(order, record) else DriverVerb.RESIZE


def _choose_to_run(order: Order, record: Record, found: ObservedVm) -> DriverVerb | None:
    is_alive = found.power in _ALIVE
    if is_alive and order.restarts > record.restarts:
        return DriverVerb.RESTART
    if found.power != "left" and not has_its_size(order, record):
        return DriverVerb.RESIZE
    if not is_alive:
        return DriverVerb.START if not _is_source(order) or record.sent < order.generation else None
    if found.power == "paused" and order.power == "running":
        return DriverVerb.RESUME
    if found.power == "running" and _is_source(order):
        return DriverVerb.SEND
    if found.power == "running" and order.power == "paused":
        return DriverVerb.PAUSE
    return None


def _is_source(order: Order) -> bool:
    return order.migration is not None and order.migration.is_source


def _is_target(order: Order) -> bool:
    return order.migration is not None and not order.migration.is_source


def _size(order: Order) -> tuple[int, int, int, tuple[int, ...]]:
    return order.cpu_count, order.cpu_millis, order.memory_bytes, tuple(disk.size_bytes for disk in order.disks)
