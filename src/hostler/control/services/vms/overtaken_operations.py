"""Operations that a later change makes obsolete. A work of the store.

An operation that is open when another change is written ends with that change, and would look successful. So those
that the new change takes back are ended first, as failed with the reason. An operation that is effectively done stays
open until its host has reported it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from hostler.control.store import Connection
from hostler.control.store.rows import operations
from hostler.control.store.rows.operations import OperationRow
from hostler.control.vms.state import Vm

__all__ = ["SIZES", "end_overtaken", "size_body"]

SIZES = ("cpu", "memory")  # what a resize may wait for; all else of a spec is so at once
_AT_REST = ("stopped", "absent", "left")
_EVERYTHING = frozenset(
    f"vm.{verb}"
    for verb in ("create", "start", "stop", "restart", "pause", "resume", "resize", "migrate", "cancel-migration")
)
_OVERTAKEN: Mapping[str, frozenset[str]] = {
    "vm.start": frozenset({"vm.stop"}),
    "vm.stop": frozenset({"vm.create", "vm.start", "vm.restart", "vm.pause", "vm.resume"}),
    "vm.resume": frozenset({"vm.pause"}),
    "vm.resize": frozenset({"vm.resize"}),
    "vm.delete": _EVERYTHING,
}
_WORDS = {
    "vm.start": "a start",
    "vm.stop": "a stop",
    "vm.resume": "a resume",
    "vm.resize": "another resize",
    "vm.delete": "a deletion",
}


class _Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """The amounts that a resize named, from the body of its operation."""

    sizes: tuple[str, ...] = ()


def size_body(patch: Iterable[str]) -> bytes:
    """Return the body of a resize operation that names these fields of a spec."""
    return msgspec.json.encode(_Asked(tuple(sorted(set(SIZES).intersection(patch)))))


def end_overtaken(connection: Connection, before: Vm, after: Vm, what: str, now_ns: int) -> None:
    """End the open operations of a VM that a change from ``before`` to ``after`` takes back."""
    kinds = _OVERTAKEN.get(what, frozenset())
    if not kinds or before.generation == after.generation:
        return
    changed = {name for name in SIZES if getattr(before.spec, name) != getattr(after.spec, name)}
    why = f"superseded by {_WORDS[what]}"
    ended = [
        row.id
        for row in operations.open_of(connection, before.id)
        if row.kind in kinds
        and not _is_fulfilled(row, before, is_kept=what != "vm.delete")
        and (what != "vm.resize" or changed.intersection(_sizes(row)))
    ]
    operations.fail(connection, ended, why, now_ns)


def _sizes(row: OperationRow) -> tuple[str, ...]:
    return msgspec.json.decode(row.body, type=_Asked).sizes


def _is_fulfilled(row: OperationRow, vm: Vm, *, is_kept: bool) -> bool:
    """Return whether a VM is as an open operation wants it. A placed VM counts as created, unless it is deleted."""
    if row.kind == "vm.create" and is_kept:
        return vm.home is not None
    if row.kind in ("vm.create", "vm.start", "vm.resume"):
        return vm.reported == "running"
    if row.kind == "vm.restart":
        return vm.reported == "running" and vm.reported_restarts >= vm.restarts
    if row.kind == "vm.pause":
        return vm.reported == "paused"
    if row.kind == "vm.stop":
        return vm.home is None or vm.reported in _AT_REST
    if row.kind == "vm.resize":
        is_told = vm.home is not None and vm.reported_generation >= max(row.generation, vm.resized)
        return is_told and all(_has(vm, name) for name in _sizes(row))
    return False


def _has(vm: Vm, name: str) -> bool:
    """Return whether a VM has the desired amount."""
    if name == "cpu":
        return vm.booked.cpu_millis == vm.wanted.cpu_millis
    return vm.booked.memory_bytes == vm.wanted.memory_bytes
