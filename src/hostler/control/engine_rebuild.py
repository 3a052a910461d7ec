"""Rebuilds the engine's state from rows instead of the log, for a lone replica whose checkpoints are unusable.

Rows hold where VMs are and their desired state; the log holds the history of decisions. An engine built from rows has
the first and has lost the second (``LOST``). It is saved as the only checkpoint, behind a note in the log, so no
replica can reach it through entries before that note. Used by the command ``rebuild``, in one transaction, while no
replica leads.

Invariant: every VM that has a host in the rows has it in the engine, or nothing is written. An engine that knew less
would give the room away a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from hostler.control.books import ledger
from hostler.control.books.follower import REBUILT, RULES, seal_checkpoint
from hostler.control.fleet.hosts.host_body import host_of, read_body
from hostler.control.services.callers import AuditNote
from hostler.control.services.tenancy import projects, quotas, reservations
from hostler.control.services.vms import gangs
from hostler.control.settings import policies_of_empty_log
from hostler.control.store import Connection, Database
from hostler.control.store.errors import DatabaseInUseError
from hostler.control.store.history import lease, log
from hostler.control.store.rows import documents, hosts, vms
from hostler.control.store.rows import projects as project_rows
from hostler.control.store.rows.vms import VmFilter
from hostler.control.vms.guests import guest_of
from hostler.control.vms.state import Claim, Vm
from hostler.engine import Engine
from hostler.errors import HostlerError, InternalError
from hostler.model import Event, GangChanged, GuestArrived, HostJoined, QuotasChanged, ReservationChanged

__all__ = ["LOST", "RebuildReport", "rebuild_database", "rebuild_engine"]

ACTOR = "operator"
LOST = (
    "pauses after failed tries: every VM that waits is tried at once",
    "how long VMs have waited for the engine: they keep their order, and count from now",
    "room that was kept for VMs of higher priority while others are stopped for it: those who stop do stop, and the "
    "room goes to the first in the queue that fits",
    "room that a gang held until the rest of it fits, and how far a search for a gang had come",
    "limits on how often VMs are stopped for others: they count from now",
    "turns of round robin, and the state of random choices",
    "when and how each VM was decided last: explanations are of now, and earlier decisions cannot be replayed",
)
"""What an engine made from rows does not know, in words for operators."""
_PAGE = 500
_STOP = "stop the service first ('hostler serve', all replicas of it), then rebuild, then start it again"


class RebuildReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine was built from, and what was lost. ``refused`` are facts about waiting VMs."""

    seq: int
    projects: int
    hosts: int
    vms_with_room: int
    vms_waiting: int
    quotas: int
    gangs: int
    reservations: int
    refused: tuple[str, ...] = ()
    lost: tuple[str, ...] = LOST


def rebuild_database(database: Database, now_ns: int, tell: Callable[[str], None]) -> RebuildReport:
    """Rebuild the engine of an open database when there is no leader; DatabaseInUseError if a leader is alive.

    ``tell`` gets a line if the lease of a dead leader has to expire first.
    """
    if database.is_shared:
        lease.wait_for_end(lambda: database.read_now(lease.read), database.name, tell, hint=_STOP)
    else:
        database.submit(lease.bury).result()  # one process per file, and it is this one
    return database.submit(lambda connection: rebuild_engine(connection, now_ns, database.name)).result()


def rebuild_engine(connection: Connection, now_ns: int, where: str) -> RebuildReport:
    """Build an engine from rows, and make every replica start with it; DatabaseInUseError while a replica leads."""
    held = lease.read(connection, is_locking=True)
    if held.is_held:
        raise DatabaseInUseError(f"{where} is in use: {held.holder} leads", hint=_STOP)
    engine = Engine(policies_of_empty_log(), rules=RULES)  # who leads next says which policies hold
    tenancy = list(_tenancy(connection))
    fleet = [HostJoined(host=host_of(row, read_body(row))) for row in _registered_hosts(connection)]
    found = list(_vms(connection))
    placed = [_arrival(vm, claim) for vm in found for claim in _claims(vm) if claim.is_bound]
    waiting = [_arrival(vm, claim) for vm in found for claim in _claims(vm) if not claim.is_bound]
    for fact in (*fleet, *tenancy, *placed):
        _apply(engine, fact, now_ns)
    refused = []
    for fact in waiting:
        try:
            engine.apply(msgspec.structs.replace(fact, at=now_ns))
        except HostlerError as error:  # as when it was created: the log of the service named it then
            refused.append(f"{fact.guest.spec.namespace}/{fact.guest.name}: {error.message}")
    seq = _note(connection, now_ns)
    log.replace_checkpoints(connection, seal_checkpoint(seq, now_ns, read=seq, engine=engine.checkpoint()))
    return RebuildReport(
        seq=seq,
        projects=len(_projects(connection)),
        hosts=len(fleet),
        vms_with_room=len({vm.id for vm in found if vm.has_room}),
        vms_waiting=len({vm.id for vm in found for claim in _claims(vm) if not claim.is_bound}),
        quotas=len(documents.list_all(connection, "quota")),
        gangs=len(documents.list_all(connection, "gang")),
        reservations=len(documents.list_all(connection, "reservation")),
        refused=tuple(refused),
    )


def _apply(engine: Engine, fact: Event, now_ns: int) -> None:
    try:
        engine.apply(msgspec.structs.replace(fact, at=now_ns))
    except HostlerError as error:
        what = f"the engine does not take what the rows say ({type(fact).__name__}): {error.message}"
        raise InternalError(what, hint="nothing was changed; please report it") from error


def _tenancy(connection: Connection) -> Iterator[Event]:
    for project in _projects(connection):
        fact = projects.labels_fact(project)
        if fact.labels:
            yield fact
    yield QuotasChanged(quotas=quotas.all_quotas(connection))
    for row in documents.list_all(connection, "gang"):
        yield GangChanged(gang=gangs.gang_of(row))
    for row in documents.list_all(connection, "reservation"):
        yield ReservationChanged(reservation=reservations.reservation_of(row))


def _projects(connection: Connection) -> list[project_rows.ProjectRow]:
    found: list[project_rows.ProjectRow] = []
    while page := project_rows.list_after(connection, found[-1].name if found else "", limit=_PAGE):
        found += page
    return found


def _registered_hosts(connection: Connection) -> list[hosts.HostRow]:
    """Return the hosts that the engine knows. A host that never registered is not among them."""
    return [row for row in hosts.all_alive(connection) if row.state != "joined"]


def _vms(connection: Connection) -> Iterator[Vm]:
    """Yield all VMs that still exist, in the order in which they began to wait."""
    found: list[tuple[int, str, Vm]] = []
    page = vms.list_page(connection, VmFilter(), limit=_PAGE)
    while True:
        for row in page.items:
            vm = ledger.read_row(row).vm
            if not vm.is_gone:
                found.append((vm.waits_since_ns or row.created_ns, vm.id, vm))
        if not page.next:
            break
        page = vms.list_page(connection, VmFilter(), after=page.next, limit=_PAGE)
    for _, _, vm in sorted(found, key=lambda one: one[:2]):
        yield vm


def _claims(vm: Vm) -> Iterator[Claim]:
    for claim in (vm.disk, vm.run, vm.grow, vm.move):
        if claim is not None:
            yield claim


def _arrival(vm: Vm, claim: Claim) -> GuestArrived:
    """Return the facts about a claim: the VM's host, or that it waits."""
    is_run = vm.run is not None and claim.uid == vm.run.uid
    is_leaving = is_run and claim.is_bound and (vm.is_evicted or vm.power == "absent")
    guest = guest_of(vm, claim, is_leaving=is_leaving)
    if claim.is_bound and not guest.host:
        what = f"VM {vm.name} of project {vm.project} has room on a host that its row does not name"
        raise InternalError(what, hint="nothing was changed; please report it")
    return GuestArrived(guest=guest)


def _note(connection: Connection, now_ns: int) -> int:
    """Log that decisions restart here; return the number of that entry."""
    body = msgspec.json.encode(AuditNote(what=REBUILT, text="the engine was rebuilt from rows"))
    entry = log.NewEntry(at_ns=now_ns, kind="note", body=body, actor=ACTOR, subject=REBUILT)
    return log.append(connection, [entry])[0]
