"""What one VM needs next, from its order, its record and how it was found: the table at the heart of ``core``.

Level-triggered: no history but the record counts, so whatever a crash left behind leads to the order. Pure.
"""

from __future__ import annotations

import msgspec

from hostler.agent.drivers.driver import Found
from hostler.agent.messages import Order
from hostler.agent.state import Record, Verb

__all__ = ["choose", "has_its_size", "is_satisfied", "may_absorb_restarts", "with_disks_made_before"]

_ALIVE = ("running", "paused")


def choose(order: Order, record: Record, found: Found | None, *, has_landing: bool) -> Verb | None:
    """Return the next thing to do about a VM, or None when there is nothing to do or somebody else must act."""
    if order.power == "absent":
        return Verb.DELETE if found is not None else None
    if found is not None and found.is_stray:
        return _choose_for_stray(order, record)
    if _is_target(order):
        return _choose_at_target(found, has_landing=has_landing)
    if found is not None and found.power == "landing":
        return Verb.DELETE  # nobody sends any more, and it is to be here: the landing makes way
    if record.sent >= order.generation and (found is None or found.power not in _ALIVE):
        return None  # it may run elsewhere; only a newer order says that it belongs here
    if found is None:
        return Verb.CREATE
    if order.power == "stopped":
        return _choose_to_stop(order, record, found)
    return _choose_to_run(order, record, found)


def with_disks_made_before(order: Order, record: Record) -> Order:
    """Return an order that says so if its disks were made here since this host was chosen: none is made again."""
    made = record.made
    if made is None or not made.disks or made.generation < order.since:
        return order
    return msgspec.structs.replace(order, has_disks=True)


def is_satisfied(order: Order, record: Record, found: Found | None) -> bool:
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
    """Say whether a VM was made, or made over, in the size that is ordered."""
    return record.made is not None and record.resizing is None and _size(order) == _size(record.made)


def may_absorb_restarts(order: Order, found: Found | None) -> bool:
    """Say whether the ordered restarts are done with: a VM that does not run has ended, and starts anew.

    This is what makes a restart happen once: it counts as done when the VM is seen stopped, which is recorded before it
    is started. A crash before the record finds it stopped again, a crash after it finds nothing left to do.
    """
    return found is None or found.power not in _ALIVE or order.power in ("stopped", "absent")


def _choose_at_target(found: Found | None, *, has_landing: bool) -> Verb | None:
    if found is None:
        return Verb.AWAIT_LANDING
    if found.power == "landing":
        return None if has_landing else Verb.AWAIT_LANDING
    return Verb.DELETE if found.power == "left" else None  # once sent away from here, and now coming back


def _choose_for_stray(order: Order, record: Record) -> Verb | None:
    """Return what may be done about a VM that runs without its record: what remains of a local disk ends with it."""
    made = record.made or order
    if any(not disk.storage for disk in (*order.disks, *made.disks)):
        return None
    if order.power == "stopped":
        return Verb.STOP
    return Verb.RESTART if order.restarts > record.restarts else None


def _choose_to_stop(order: Order, record: Record, found: Found) -> Verb | None:
    if found.power in _ALIVE:
        return Verb.STOP
    return None if has_its_size(order, record) else Verb.RESIZE


def _choose_to_run(order: Order, record: Record, found: Found) -> Verb | None:
    is_alive = found.power in _ALIVE
    if is_alive and order.restarts > record.restarts:
        return Verb.RESTART
    if found.power != "left" and not has_its_size(order, record):
        return Verb.RESIZE
    if not is_alive:
        return Verb.START if not _is_source(order) or record.sent < order.generation else None
    if found.power == "paused" and order.power == "running":
        return Verb.RESUME
    if found.power == "running" and _is_source(order):
        return Verb.SEND
    if found.power == "running" and order.power == "paused":
        return Verb.PAUSE
    return None


def _is_source(order: Order) -> bool:
    return order.migration is not None and order.migration.is_source


def _is_target(order: Order) -> bool:
    return order.migration is not None and not order.migration.is_source


def _size(order: Order) -> tuple[int, int, int, tuple[int, ...]]:
    return order.cpu_count, order.cpu_millis, order.memory_bytes, tuple(disk.size_bytes for disk in order.disks)
