"""What follows from silence, and from proof of death: works of the store.

Silence only makes VMs unknown. The same transaction raises the host's epoch, so a silent host must register before its
messages count again. So that registration and a proof of death exclude each other.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostler.control.books import ledger
from hostler.control.books.decisions import LEADER
from hostler.control.fleet.errors import HostAliveError
from hostler.control.fleet.hosts.host_body import HostBody, read_body
from hostler.control.fleet.hosts.host_writes import announce, get_live_host, write_changes
from hostler.control.store import Connection
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms import reports
from hostler.control.vms.state import Vm
from hostler.model.vocabulary import plural

__all__ = [
    "SILENT", "Proof", "count_watched", "has_restartable", "lose_late_placements", "lose_stopped_vms", "mark_dead",
    "mark_silent",
]  # fmt: skip

SILENT = ("silent", "offline")  # in these states the condition of a host is unknown
Proof = str  # in words, for people

_replace = msgspec.structs.replace


def mark_silent(
    connection: Connection,
    row: HostRow,
    *,
    state: str,
    body: HostBody | None = None,
    actor: str,
    text: str,
    now_ns: int,
) -> HostRow:
    """Mark a host as silent: it gets no VMs, and the state of its VMs is unknown. ``body``: its other changes."""
    changed = _replace(row, state=state, epoch=row.epoch + 1)
    saved = announce(connection, row, changed, body or read_body(row), actor=actor, now_ns=now_ns, text=text)
    loaded = ledger.load_of_host(connection, row.id)
    here = [stored for stored in loaded if stored.vm.home is not None and stored.vm.home.host == row.id]
    write_changes(
        connection, [(stored, reports.mark_unknown(stored.vm)) for stored in here], actor=actor, now_ns=now_ns
    )
    return saved


def mark_dead(
    connection: Connection, host: str, proof: Proof, *, epoch: int | None = None, actor: str, now_ns: int
) -> int:
    """Record proof that a host runs nothing; return how many VMs that concerned. HostAliveError if it reports.

    ``epoch``: that of the host when the proof began (a fencing command may run for a minute). A host that registered
    since may run VMs again, even if it is silent once more: HostAliveError. None: the proof is of now.
    """
    row = get_live_host(connection, host)
    if epoch is not None and row.epoch != epoch:
        hint = "it may run VMs that were started since: fence it again"
        raise HostAliveError(f"host {row.name} was heard since its fencing began", hint=hint)
    if row.state not in SILENT:
        hint = "its agent reports: switch the host off, then wait until it is silent"
        raise HostAliveError(f"host {row.name} is {row.state}, not silent", hint=hint)
    changed = _replace(row, state="fenced", epoch=row.epoch + 1)
    body = _replace(read_body(row), must_relearn=True)
    announce(connection, row, changed, body, actor=actor, now_ns=now_ns, text=f"proved dead: {proof}")
    loaded = ledger.load_of_host(connection, host)
    lost = [(stored, reports.lose_host(stored.vm, host)) for stored in loaded]
    return write_changes(connection, lost, actor=actor, now_ns=now_ns)


def lose_late_placements(connection: Connection, host: str, *, now_ns: int) -> int:
    """Take VMs from a dead host that a late decision placed there; return how many."""
    if get_live_host(connection, host).state != "fenced":
        return 0
    lost = [(stored, reports.lose_host(stored.vm, host)) for stored in ledger.load_of_host(connection, host)]
    return write_changes(connection, lost, actor=LEADER, now_ns=now_ns)


def lose_stopped_vms(connection: Connection, host: str, *, epoch: int, now_ns: int) -> int:
    """Record that a silent host's watchdog has stopped its VMs; return how many VMs that concerned.

    The host's last report must have said that a watchdog works there, and the host must not have returned since it was
    found silent in that epoch. The watchdog only knows that it must stop a VM if the host has carried out its newest
    order. A watchdog with more VMs than it can stop in time proves nothing about any of them, because it is unknown
    which it stopped first.
    """
    row = get_live_host(connection, host)
    body = read_body(row)
    if row.state not in SILENT or row.epoch != epoch or not body.is_watched:
        return 0
    here = ledger.load_of_host(connection, host)
    loaded = [stored for stored in here if _is_stopped_by_watchdog(stored.vm, host)]
    if not loaded:
        return 0
    count = count_watched([stored.vm for stored in here], body)
    if count > body.watched_vms:
        text = (
            f"its watchdog proves nothing: it stops {plural(body.watched_vms, 'VM')} in time at most, "
            f"and {count} may run there; if the host is dead, confirm that, or set a fencing command"
        )
        announce(connection, row, row, body, actor=LEADER, now_ns=now_ns, text=text)
        return 0
    relearning = _replace(body, must_relearn=True)
    text = f"its watchdog has stopped {plural(len(loaded), 'VM')} by now"
    announce(connection, row, row, relearning, actor=LEADER, now_ns=now_ns, text=text)
    lost = [(stored, reports.lose_host(stored.vm, host)) for stored in loaded]
    return write_changes(connection, lost, actor=LEADER, now_ns=now_ns)


def count_watched(vms: Iterable[Vm], body: HostBody) -> int:
    """Return how many VMs a host's watchdog may have to stop: our VMs, remains, and VMs that no row knows."""
    ours = sum(1 for vm in vms if vm.spec.when_lost == "restart")
    return ours + len(body.remains) + len(body.strangers)


def has_restartable(connection: Connection, host: str) -> bool:
    """Say whether a host has a VM that starts elsewhere once the host is declared dead."""
    return any(_may_restart(stored.vm, host) for stored in ledger.load_of_host(connection, host))


def _may_restart(vm: Vm, host: str) -> bool:
    is_here = vm.home is not None and vm.home.host == host
    return is_here and vm.spec.when_lost == "restart" and vm.power in ("running", "paused")


def _is_stopped_by_watchdog(vm: Vm, host: str) -> bool:
    if not _may_restart(vm, host) or vm.home is None or vm.moving is not None:
        return False
    return vm.reported_generation == vm.home.generation
