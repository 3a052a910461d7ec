"""Reads and writes VMs: one transaction holds everything that follows from a change of a VM.

``load*`` decodes rows into ``StoredVm``: the VM as a value, and the row as it was read. Pure code in ``control.vms``
turns that value into a ``VmChange``. ``write_many`` writes the change::

    read row (version n)  ->  pure transition  ->  one transaction
                                                     1. vms          row with version n + 1, only if it is still n
                                                     2. placements   room that the VM reserves on hosts
                                                     3. operations   requests of users that are finished or failed
                                                     4. log          facts for the engine, notes for people,
                                                                     one ChangeNotice that wakes waiting requests

Step 1 comes first, because it raises StaleVersionError before anything else is written. Step 4 comes last, because the
log assigns numbers in commit order and nothing may be written behind them.

Invariant: the four parts are written together or not at all. So a reader of any one of them can rely on the others: a
placement has its fact in the log, and a fact has its row. Never write one of these tables for a VM in another way.

The store runs the transactions of all replicas one after the other. So what a work loads is still current when the same
work writes it, and no row lock is needed. A version conflict can occur only if the value was read in an earlier
transaction.

The leader, the services and the code that takes in agents' reports use this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostler.control.books.vm_parts import name_parts
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError, StaleVersionError
from hostler.control.store.history import log
from hostler.control.store.rows import hosts, operations, placements, vms
from hostler.control.store.rows.placements import PlacementRow
from hostler.control.store.rows.vms import VmRow
from hostler.control.vms.spec import Size
from hostler.control.vms.start_times import with_start_time
from hostler.control.vms.state import Booking, Vm, VmChange, state_of
from hostler.errors import HostlerError

__all__ = [
    "NEWS", "Actors", "ChangeNotice", "NewVm", "StoredVm", "insert", "insert_many", "load", "load_many",
    "load_of_host", "load_of_hosts", "read_row", "write", "write_many",
]  # fmt: skip

NEWS = "news"  # the subject of entries for those who wait
Actors = str | Mapping[str, str]  # who changes VMs: one for all of them, or by VM

_ENCODER = msgspec.json.Encoder()
_replace = msgspec.structs.replace
_VM = msgspec.json.Decoder(Vm)
_PENDING = "pending"  # the state of a VM that waits for a place
_MOVE = "vm.migrate"  # the kind of an operation


class ChangeNotice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A log entry that wakes waiting requests: which VMs changed, and which hosts have new orders."""

    vms: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class NewVm(msgspec.Struct, frozen=True, kw_only=True):
    """A VM to be written for the first time, by whom and when."""

    change: VmChange
    actor: str
    now_ns: int


class StoredVm(msgspec.Struct, frozen=True):
    """A VM as it was read, with the row that must not have changed when it is written."""

    vm: Vm
    row: VmRow


def read_row(row: VmRow) -> StoredVm:
    """Decode a row."""
    return StoredVm(_VM.decode(row.status), row)


def load(connection: Connection, identity: str) -> StoredVm:
    """Return a VM by its id; NotFoundError."""
    found = vms.find_many(connection, [identity])
    if not found:
        raise NotFoundError.of("vm", identity)
    return read_row(found[0])


def load_many(connection: Connection, identities: Iterable[str]) -> dict[str, StoredVm]:
    """Return those of the given VMs that exist, by id."""
    return {row.id: read_row(row) for row in vms.find_many(connection, sorted(set(identities)))}


def load_of_host(connection: Connection, host: str) -> list[StoredVm]:
    """Return all VMs that a host has or is to have."""
    return [read_row(row) for row in vms.of_hosts(connection, [host])]


def load_of_hosts(connection: Connection, hosts: Sequence[str]) -> dict[str, list[StoredVm]]:
    """Return all VMs that some hosts have or are to have, by host."""
    found: dict[str, list[StoredVm]] = {host: [] for host in hosts}
    for one in map(read_row, vms.of_hosts(connection, hosts)):
        for booking in (one.vm.home, one.vm.other):
            if booking is not None and booking.host in found:
                found[booking.host].append(one)
    return found


def insert(connection: Connection, change: VmChange, *, actor: str, now_ns: int) -> StoredVm:
    """Write a new VM and its facts for the engine; NameTakenError, NotFoundError."""
    outcome = insert_many(connection, [NewVm(change=change, actor=actor, now_ns=now_ns)])[0]
    if isinstance(outcome, HostlerError):
        raise outcome
    return outcome


def insert_many(connection: Connection, news: Sequence[NewVm]) -> list[StoredVm | HostlerError]:
    """Write new VMs and their facts for the engine. The outcome of a VM that is not written is the error."""
    rows = [_row(new.change.vm, created_ns=new.now_ns, now_ns=new.now_ns) for new in news]
    outcomes: list[StoredVm | HostlerError] = []
    written: list[NewVm] = []
    for new, row in zip(news, vms.insert_many(connection, rows), strict=True):
        if isinstance(row, HostlerError):
            outcomes.append(row)
        else:
            outcomes.append(StoredVm(new.change.vm, row))
            written.append(new)
    if written:
        actors = {new.change.vm.id: new.actor for new in written}
        now_ns = max(new.now_ns for new in written)
        _append(connection, [new.change for new in written], actors=actors, now_ns=now_ns, notes={})
    return outcomes


def write(
    connection: Connection, before: StoredVm, change: VmChange, *, actor: str, now_ns: int, notes: Sequence[str] = ()
) -> StoredVm:
    """Write a transition of a VM; StaleVersionError if the VM changed since it was read."""
    extra = {change.vm.id: tuple(notes)}
    return write_many(connection, [(before, change)], actor=actor, now_ns=now_ns, notes=extra)[0]


def write_many(
    connection: Connection,
    changes: Sequence[tuple[StoredVm, VmChange]],
    *,
    actor: Actors,
    now_ns: int,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> list[StoredVm]:
    """Write transitions of several different VMs: all of them or none.

    A change without any effect costs nothing.
    """
    extra = notes or {}
    result: list[StoredVm] = []
    rows: list[VmRow] = []
    moved: list[tuple[Vm, Vm]] = []
    changes = [(before, with_start_time(before.vm, change, now_ns)) for before, change in changes]
    for before, change in changes:
        if change.vm == before.vm:
            result.append(before)
            continue
        vm = _waiting_since(before.vm, change.vm, now_ns)
        row = _row(vm, created_ns=before.row.created_ns, now_ns=now_ns, version=before.row.version)
        rows.append(row)
        moved.append((before.vm, vm))
        result.append(StoredVm(vm, msgspec.structs.replace(row, version=row.version + 1)))
    if rows and vms.save_many(connection, rows) != len(rows):
        raise StaleVersionError("a VM changed meanwhile", hint="read it again and repeat the change")
    for old, new in moved:
        if old.spec.labels != new.spec.labels:
            vms.set_labels(connection, new.id, tuple(sorted(new.spec.labels.items())))
    _keep_room(connection, moved, now_ns)
    for _, change in changes:
        if change.unmoved:
            _fail_moves(connection, change.vm.id, change.unmoved, now_ns)
    given_up = {change.vm.id: change.failed for _, change in changes if change.failed}
    _finish_operations(connection, moved, given_up, now_ns)
    told = [
        _replace(change, facts=name_parts(before.vm, change.vm, change.facts)) if change.facts else change
        for before, change in changes
        if change != VmChange(vm=before.vm) or extra.get(change.vm.id)
    ]
    _append(connection, told, actors=actor, now_ns=now_ns, notes=extra)
    return result


def _waiting_since(before: Vm, after: Vm, now_ns: int) -> Vm:
    """Return the VM with the time since which it waits for a place, if it began or ceased to wait."""
    waits = state_of(after) == _PENDING
    if waits == (state_of(before) == _PENDING):
        return after
    return _replace(after, waits_since_ns=now_ns if waits else 0)


def _row(vm: Vm, *, created_ns: int, now_ns: int, version: int = 1) -> VmRow:
    size = vm.wanted
    return VmRow(
        id=vm.id,
        project=vm.project,
        name=vm.name,
        labels=tuple(sorted(vm.spec.labels.items())),
        power=vm.power,
        state=state_of(vm),
        host=vm.home.host if vm.home is not None else "",
        gang=vm.spec.gang,
        priority=vm.spec.priority,
        is_protected=vm.is_protected,
        cpu_millis=size.cpu_millis,
        memory_bytes=size.memory_bytes,
        disk_bytes=size.disk_bytes,
        generation=vm.generation,
        observed_generation=vm.observed_generation,
        restarts=vm.restarts,
        version=version,
        created_ns=created_ns,
        updated_ns=now_ns,
        deleted_ns=now_ns if vm.is_gone else None,
        status=_ENCODER.encode(vm),
    )


def _keep_room(connection: Connection, moved: Sequence[tuple[Vm, Vm]], now_ns: int) -> None:
    """Bring the rows of placements to what the VMs have booked."""
    dropped: list[tuple[str, str]] = []
    written: list[PlacementRow] = []
    for old, new in moved:
        had, has = _placements(old, now_ns), _placements(new, now_ns)
        dropped += [(row.vm, role) for role, row in had.items() if role not in has or not _is_same(has[role], row)]
        written += [row for role, row in has.items() if role not in had or not _is_same(had[role], row)]
    placements.drop_many(connection, dropped)
    placements.insert_many(connection, written)


def _placements(vm: Vm, now_ns: int) -> dict[str, PlacementRow]:
    found: dict[str, PlacementRow] = {}
    if vm.home is not None:
        found["home"] = _placement(vm, "home", vm.home, vm.booked, now_ns)
    if vm.other is not None:
        size = vm.move.size if vm.move is not None else Size()
        found["landing"] = _placement(vm, "landing", vm.other, size, now_ns)
    return found


def _placement(vm: Vm, role: str, booking: Booking, size: Size, now_ns: int) -> PlacementRow:
    return PlacementRow(
        vm=vm.id,
        host=booking.host,
        role=role,
        generation=booking.generation,
        cpu_millis=size.cpu_millis,
        memory_bytes=size.memory_bytes,
        disk_bytes=size.disk_bytes,
        seq=booking.seq,
        at_ns=now_ns,
    )


def _is_same(old: PlacementRow, new: PlacementRow) -> bool:
    return msgspec.structs.replace(old, at_ns=0) == msgspec.structs.replace(new, at_ns=0)


def _fail_moves(connection: Connection, vm: str, why: str, now_ns: int) -> None:
    """Fail the open moves of a VM; its other operations continue."""
    moves = [row.id for row in operations.open_of(connection, vm) if row.kind == _MOVE]
    operations.fail(connection, moves, why, now_ns)


def _finish_operations(
    connection: Connection, moved: Sequence[tuple[Vm, Vm]], given_up: Mapping[str, str], now_ns: int
) -> None:
    """Finish the operations whose goal was reached, and fail those whose goal cannot be reached."""
    done = [
        (vm.id, vm.observed_generation)
        for old, vm in moved
        if vm.observed_generation > old.observed_generation or (vm.is_gone and not old.is_gone)
    ]
    failed = {
        vm.id: vm.trouble.message
        for _, vm in moved
        if vm.trouble is not None
        and vm.trouble.kind == "permanent"
        and vm.home is not None
        and vm.failed_generation == vm.home.generation
    }
    operations.finish(connection, done, {**failed, **given_up}, now_ns)


def _append(
    connection: Connection,
    changes: Sequence[VmChange],
    *,
    actors: Actors,
    now_ns: int,
    notes: Mapping[str, Sequence[str]],
) -> None:
    entries: list[log.NewEntry] = []
    woken: dict[str, None] = {}
    for change in changes:
        vm = change.vm
        actor = actors if isinstance(actors, str) else actors[vm.id]
        entries += [
            log.NewEntry(
                at_ns=now_ns,
                kind="fact",
                body=_ENCODER.encode(fact),
                actor=actor,
                project=vm.project,
                subject=vm.id,
            )
            for fact in change.facts
        ]
        for text in (*change.notes, *notes.get(vm.id, ())):
            body = _ENCODER.encode({"text": text, "vm": vm.name})
            entries.append(
                log.NewEntry(at_ns=now_ns, kind="note", body=body, actor=actor, project=vm.project, subject=vm.id)
            )
        woken.update(dict.fromkeys(change.hosts))
    if woken:
        hosts.raise_generations(connection, list(woken))
    news = ChangeNotice(vms=tuple(change.vm.id for change in changes), hosts=tuple(woken))
    if news != ChangeNotice():
        entries.append(log.NewEntry(at_ns=now_ns, kind="note", body=_ENCODER.encode(news), subject=NEWS))
    log.append(connection, entries)
