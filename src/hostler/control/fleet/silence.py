"""What follows from silence, and from proof of death: works of the store.

Silence makes VMs unknown and nothing else. Their host's epoch is raised with it, so whoever was silent must register
before anything it says counts again, and that registration and a proof exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.control.books import ledger
from hostler.control.books.deciding import LEADER
from hostler.control.fleet.announcing import alive, announce, write_changes
from hostler.control.fleet.errors import HostAliveError
from hostler.control.fleet.hosts import HostBody, read_body
from hostler.control.store import Connection
from hostler.control.store.hosts import HostRow
from hostler.control.vms import reports
from hostler.control.vms.state import Vm

__all__ = ["SILENT", "Proof", "bury", "count_watched", "has_restartable", "lose_rest", "lose_watched", "silence"]

SILENT = ("silent", "offline")  # states in which nobody knows how a host is
Proof = str  # in words, for people

_replace = msgspec.structs.replace


def silence(
    connection: Connection,
    row: HostRow,
    *,
    state: str,
    body: HostBody | None = None,
    actor: str,
    text: str,
    now_ns: int,
) -> HostRow:
    """Take a host for silent: it gets no VMs, and how its VMs are is unknown. ``body``: what is new of it beside."""
    changed = _replace(row, state=state, epoch=row.epoch + 1)
    saved = announce(connection, row, changed, body or read_body(row), actor=actor, now_ns=now_ns, text=text)
    loaded = ledger.of_host(connection, row.id)
    here = [stored for stored in loaded if stored.vm.home is not None and stored.vm.home.host == row.id]
    write_changes(connection, [(stored, reports.silent(stored.vm)) for stored in here], actor=actor, now_ns=now_ns)
    return saved


def bury(connection: Connection, host: str, proof: Proof, *, epoch: int | None = None, actor: str, now_ns: int) -> int:
    """Take in proof that a host runs nothing; return how many VMs that concerned. HostAliveError if it reports.

    ``epoch``: that of the host when the work began that proves it (a fencing command may run for a minute). A host
    that registered since may run VMs again, also if it is silent once more: HostAliveError. None: the proof is of now.
    """
    row = alive(connection, host)
    if epoch is not None and row.epoch != epoch:
        hint = "it may run VMs that were started since: fence it again"
        raise HostAliveError(f"host {row.name} was heard since its fencing began", hint=hint)
    if row.state not in SILENT:
        hint = "its agent reports: switch the host off, then wait until it is silent"
        raise HostAliveError(f"host {row.name} is {row.state}, not silent", hint=hint)
    changed = _replace(row, state="fenced", epoch=row.epoch + 1)
    body = _replace(read_body(row), must_relearn=True)
    announce(connection, row, changed, body, actor=actor, now_ns=now_ns, text=f"proved dead: {proof}")
    loaded = ledger.of_host(connection, host)
    lost = [(stored, reports.lost(stored.vm, host)) for stored in loaded]
    return write_changes(connection, lost, actor=actor, now_ns=now_ns)


def lose_rest(connection: Connection, host: str, *, now_ns: int) -> int:
    """Take VMs from a dead host that were placed there by a decision which did not know yet; return how many."""
    if alive(connection, host).state != "fenced":
        return 0
    lost = [(stored, reports.lost(stored.vm, host)) for stored in ledger.of_host(connection, host)]
    return write_changes(connection, lost, actor=LEADER, now_ns=now_ns)


def lose_watched(connection: Connection, host: str, *, epoch: int, now_ns: int) -> int:
    """Take in that a silent host's watchdog has stopped what it was told to stop; return how many VMs that concerned.

    The host's last word must have been that a watchdog works there, and it has not come and gone since it was found
    silent in that epoch. Only a VM of whose newest order the host said that it is carried out is known to the watchdog
    as one to stop. A watchdog that had to stop more VMs than it can stop in time proves nothing about any of them:
    nobody knows which it stopped first.
    """
    row = alive(connection, host)
    body = read_body(row)
    if row.state not in SILENT or row.epoch != epoch or not body.is_watched:
        return 0
    here = ledger.of_host(connection, host)
    loaded = [stored for stored in here if _is_stopped_by_watchdog(stored.vm, host)]
    if not loaded:
        return 0
    count = count_watched([stored.vm for stored in here], body)
    if count > body.watched_vms:
        text = (
            f"its watchdog proves nothing: it stops {body.watched_vms} VMs in time at most, and {count} may run there; "
            f"if the host is dead, confirm that, or set a fencing command"
        )
        announce(connection, row, row, body, actor=LEADER, now_ns=now_ns, text=text)
        return 0
    relearning = _replace(body, must_relearn=True)
    text = f"its watchdog has stopped {len(loaded)} VMs by now"
    announce(connection, row, row, relearning, actor=LEADER, now_ns=now_ns, text=text)
    lost = [(stored, reports.lost(stored.vm, host)) for stored in loaded]
    return write_changes(connection, lost, actor=LEADER, now_ns=now_ns)


def count_watched(vms: Iterable[Vm], body: HostBody) -> int:
    """Return how many VMs the watchdog of a host may have to stop: those of ours, remains, and what no row knows."""
    ours = sum(1 for vm in vms if vm.spec.when_lost == "restart")
    return ours + len(body.remains) + len(body.strangers)


def has_restartable(connection: Connection, host: str) -> bool:
    """Say whether a host has a VM that is to start elsewhere once the host is proved dead."""
    return any(_may_restart(stored.vm, host) for stored in ledger.of_host(connection, host))


def _may_restart(vm: Vm, host: str) -> bool:
    is_here = vm.home is not None and vm.home.host == host
    return is_here and vm.spec.when_lost == "restart" and vm.power in ("running", "paused")


def _is_stopped_by_watchdog(vm: Vm, host: str) -> bool:
    if not _may_restart(vm, host) or vm.home is None or vm.moving is not None:
        return False
    return vm.reported_generation == vm.home.generation
