"""Emptying a host: VMs that can move do, a few at a time; the others are listed with the reason. Works of the store."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from hostler.control.books import ledger
from hostler.control.books.decisions import LEADER
from hostler.control.fleet.hosts.host_body import HostBody, read_body
from hostler.control.fleet.hosts.host_writes import announce, get_live_host, write_changes
from hostler.control.store import Connection
from hostler.control.vms import desired_state
from hostler.control.vms.errors import MigratingError, NotMovableError, WrongStateError
from hostler.control.vms.state import Leaving, Vm, VmChange

__all__ = ["StayingVm", "drain_step", "forget_refusals", "list_staying", "why_it_stays", "why_refused"]

_replace = msgspec.structs.replace


class StayingVm(msgspec.Struct, frozen=True, kw_only=True):
    """A VM that is still on a draining host, and why. ``is_stuck``: it cannot leave without help.

    ``is_refused``: no other host takes it, in the words of the decision; it is tried again from time to time.
    """

    vm: str
    project: str
    name: str
    why: str
    is_stuck: bool
    is_refused: bool = False


def list_staying(connection: Connection, host: str) -> list[StayingVm]:
    """Return the VMs that are still on a host."""
    body = read_body(get_live_host(connection, host))
    found: list[StayingVm] = []
    for stored in ledger.load_of_host(connection, host):
        vm = stored.vm
        stuck = why_it_stays(vm, host, body)
        refused = "" if stuck else why_refused(vm, host)
        why = (
            stuck
            or refused
            or ("it is moving" if vm.moving is not None else "it waits for its turn, or for room elsewhere")
        )
        one = StayingVm(
            vm=vm.id,
            project=vm.project,
            name=vm.name,
            why=why,
            is_stuck=bool(stuck or refused),
            is_refused=bool(refused),
        )
        found.append(one)
    return found


def why_it_stays(vm: Vm, host: str, body: HostBody) -> str:
    """Return why a VM cannot leave a host by itself; empty if it can, or is moving."""
    if vm.home is None or vm.home.host != host or vm.moving is not None or vm.power == "absent":
        return ""
    if not vm.spec.is_movable:
        return "it has a disk on this host: delete it, or move its data"
    if desired_state.is_at_rest(vm):
        return ""
    if vm.power == "paused":
        return "it is paused: resume or stop it"
    name = f"{vm.project}/{vm.name}"
    let_go = f"'hostler vm resize {name} --no-reserve'"
    if vm.power == "stopped":
        return f"it keeps its room here although it is stopped: {let_go} gives it back" if vm.spec.reserve else ""
    if not body.capabilities.live_migration:
        stop = f"'hostler vm stop {name}'"
        leave = f"{let_go} and {stop} let it leave" if vm.spec.reserve else f"{stop} lets it leave"
        return f"the driver of this host cannot send it: {leave}, then 'hostler vm start {name}' starts it elsewhere"
    if vm.grow is not None:
        return "it waits for room to grow here: resize it back"
    return ""


def why_refused(vm: Vm, host: str) -> str:
    """Return why no other host took a VM when it last had to leave this one; empty if one did.

    The reason stands while it is tried again, until a place is found or the owner changes the VM.
    """
    leaving = vm.leaving
    if leaving is None or leaving.generation != vm.generation or vm.home is None or vm.home.host != host:
        return ""
    return leaving.why if vm.power == "running" else ""


def forget_refusals(connection: Connection, host: str, *, actor: str, now_ns: int) -> None:
    """Let all decisions about VMs that leave a host be made again."""
    refused = [stored for stored in ledger.load_of_host(connection, host) if stored.vm.leaving is not None]
    changes = [(stored, VmChange(vm=_replace(stored.vm, leaving=None))) for stored in refused]
    write_changes(connection, changes, actor=actor, now_ns=now_ns)


def drain_step(
    connection: Connection, host: str, *, at_once: int, without: Collection[str], now_ns: int
) -> tuple[list[str], bool]:
    """Move some VMs away; return those, and whether the host is empty.

    A stopped VM needs no move: it leaves the host, and if it waits for room to run, it runs elsewhere. VMs in
    ``without`` were moved just before: they wait, unless that was forgotten.
    """
    row = get_live_host(connection, host)
    if not row.is_draining or row.state != "ready":
        return [], False
    body = read_body(row)
    loaded = ledger.load_of_host(connection, host)
    free = at_once - sum(1 for stored in loaded if stored.vm.moving is not None)
    changes, released = [], []
    for stored in loaded:
        vm = stored.vm
        if why_it_stays(vm, host, body) or vm.home is None or vm.home.host != host:
            continue
        if desired_state.is_at_rest(vm):
            released.append(vm.id)
            changes.append(
                (stored, _replace(desired_state.vacate(vm), notes=("it has left its host, which is drained",)))
            )
        elif vm.power == "stopped" or free <= 0 or (vm.id in without and vm.leaving is not None):
            continue
        elif (change := _moved(vm, host)) is not None:
            free -= 1
            changes.append((stored, change))
    if released:
        left = _replace(body, remains=tuple(sorted({*body.remains, *released})))
        changed = _replace(row, generation=row.generation + 1)
        announce(connection, row, changed, left, actor=LEADER, now_ns=now_ns)
    write_changes(connection, changes, actor=LEADER, now_ns=now_ns)
    return [stored.vm.id for stored, _ in changes], not loaded


def _moved(vm: Vm, host: str) -> VmChange | None:
    try:
        change = desired_state.migrate(vm)
        leaving = Leaving(generation=change.vm.generation, why=why_refused(vm, host))
        moved = _replace(change.vm, leaving=leaving)
        return _replace(change, vm=moved, notes=("it makes way: its host is drained",))
    except (MigratingError, NotMovableError, WrongStateError):
        return None  # it starts, grows or makes way just now: the next look sees it otherwise
