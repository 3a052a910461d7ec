"""All decision state as bytes, and back. After a restore, decisions equal those of an engine that never stopped.

Columns and cached verdicts are not written, because they follow from hosts and placements. Guests refer to shapes by
number, so a spec is written once. Invariant: fields of ``Checkpoint`` are only added, with defaults, and never change
their meaning: checkpoints of older versions must load.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from hostler.engine.cache.wide_rows import DEFAULT_BUDGET, CacheBudget
from hostler.engine.plugins.host_affinity import HostAffinity, about
from hostler.engine.policy.registry import Registry
from hostler.engine.preemption.evictions import hold_for_nominated
from hostler.engine.preemption.victim_moves import hold_destination
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.nominations import Attempts, Nomination, VictimMove
from hostler.engine.state.queue import Queue, QueueEntry, WaitKey
from hostler.engine.state.records import PLACED_STATES, QUEUED, GuestRecord
from hostler.engine.state.reservations import Reservations
from hostler.engine.state.search_shares import SearchPosition
from hostler.engine.state.state import State
from hostler.engine.state.turns import TurnPosition
from hostler.errors import InputError
from hostler.model import Budget, Gang, GuestSpec, Host, Labels, Policy, QueueRules, Quota, Reason, Reservation
from hostler.model.decisions import DecisionNote
from hostler.model.notes import NO_EVICTION_HELPS, RECORDED
from hostler.model.vocabulary import note_text

__all__ = ["FORMAT", "Checkpoint", "decode", "encode", "load", "save"]

FORMAT = 1
_NO_SPEC = GuestSpec()


class Checkpoint(msgspec.Struct, omit_defaults=True):
    """The content of a checkpoint."""

    format: int
    policies: tuple[Policy, ...]
    seed: int
    now: int
    rules: QueueRules
    counters: tuple[int, int, int]  # decisions, arrivals, asks
    resources: list[str]
    kinds: list[str]
    models: list[str]
    reasons: list[Reason]  # of all guests' last decisions; ``GuestRecord.counts`` refers to it
    shapes: list[GuestSpec | None]
    hosts: list[Host | None]
    free_rows: list[int]
    guests: list[GuestRecord]
    queue_stamp: int
    queue: dict[str, QueueEntry]
    turns: dict[str, TurnPosition]
    parked: dict[str, list[str]]
    left_guests: list[str]
    left_hosts: dict[str, int]
    ready: list[str]
    deadlines: list[tuple[int, int, str]]
    improved_rows: list[int]
    has_shifted: bool = False
    quota_freed: bool = False
    namespaces: dict[str, Labels] = {}
    budgets: list[Budget] = []
    nominations: dict[str, Nomination] = {}
    evicting: dict[str, str] = {}
    attempts: dict[str, Attempts] = {}
    cascades: list[tuple[GuestSpec, int, int]] = []
    gangs: list[Gang] = []
    gangs_broken: dict[str, int] = {}
    gangs_refused: dict[str, int] = {}
    gang_reserving: str = ""
    ordered: list[str] = []
    spent: dict[str, int] = {}
    unnominated: list[str] = []
    abandoned: dict[str, str] = {}
    queue_opened: list[WaitKey] = []
    widened_rows: list[int] = []
    quotas: list[Quota] = []
    reservations: list[Reservation] = []
    passes: dict[str, int] = {}
    reservations_in_force: list[str] = []
    searches: dict[str, SearchPosition] = {}
    searches_served: dict[str, int] = {}
    searches_denied: list[str] = []
    searches_rests: dict[str, int] = {}
    searches_turn: int = 0
    moved: list[GuestSpec] = []  # older versions wrote has_shifted instead
    idle_shapes: list[int] = []
    free_shapes: list[int] = []
    # Free numbers of resources, device kinds and models, in order of their next use. None: written before names were
    # released; then all of them are numbered again.
    free_names: tuple[list[int], list[int], list[int]] | None = None
    moves: dict[str, VictimMove] = {}
    unmoved: list[str] = []


def save(state: State) -> bytes:
    """Write all decision state."""
    stamp, entries, opened = state.queue.save()
    tables = state.tables
    codes: dict[Reason, int] = {Reason("", "fits"): 0}
    guests = [_compact_record(record, codes) for record in state.guests.values()]
    return encode(
        Checkpoint(
            format=FORMAT,
            policies=state.profiles.policies,
            seed=state.seed,
            now=state.now,
            rules=state.rules,
            counters=(state.decisions, state.arrivals, state.asks),
            resources=tables.resources.values,
            kinds=tables.kinds.values,
            models=tables.models.values,
            free_names=(tables.resources.free, tables.kinds.free, tables.models.free),
            reasons=list(codes),
            shapes=state.shapes.specs_by_number(),
            idle_shapes=state.shapes.idle(),
            free_shapes=state.shapes.free(),
            hosts=state.cluster.host_at,
            free_rows=state.cluster.free_rows,
            guests=guests,
            queue_stamp=stamp,
            queue=entries,
            queue_opened=opened,
            turns=state.turns.by_policy,
            parked={host: sorted(uids) for host, uids in sorted(state.parked.items())},
            left_guests=list(state.left_guests),
            left_hosts=state.left_hosts,
            ready=list(state.ready),
            deadlines=sorted(state.deadlines),
            improved_rows=sorted(state.improved_rows),
            widened_rows=sorted(state.widened_rows),
            has_shifted=state.has_shifted,
            moved=state.specs_of_moved(),
            quota_freed=state.quota_freed,
            namespaces=state.cluster.counters.namespaces,
            budgets=list(state.budgets.values()),
            nominations=state.nominations,
            evicting=state.evicting,
            attempts=state.attempts,
            cascades=[(spec, depth, at) for spec, (depth, at) in state.cascades.items()],
            gangs=list(state.gangs.gangs.values()),
            gangs_broken=state.gangs.broken_since,
            gangs_refused=state.gangs.refusals,
            gang_reserving=state.gangs.reserving,
            searches=state.gangs.searches.positions,
            searches_served=state.gangs.searches.served,
            searches_denied=list(state.gangs.searches.denied),
            searches_rests=state.gangs.searches.rests,
            searches_turn=state.gangs.searches.turn,
            moves=state.moves,
            unmoved=list(state.unmoved),
            ordered=list(state.ordered),
            spent=state.spent,
            unnominated=list(state.unnominated),
            abandoned=state.abandoned,
            quotas=list(state.quotas.quotas.values()),
            reservations=list(state.reservations.values()),
            passes=state.pass_of,
            reservations_in_force=sorted(state.in_force),
        )
    )


def load(data: bytes, registry: Registry, cache_budget: CacheBudget = DEFAULT_BUDGET) -> State:
    """Read what ``save`` wrote; reject a checkpoint that contradicts itself."""
    saved = decode(data)
    try:
        return _rebuild(saved, registry, cache_budget)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"the checkpoint contradicts itself: {type(error).__name__}: {error}") from error


def _check(saved: Checkpoint) -> None:
    """Reject rows, shapes and names that do not exist."""
    names = [host.name for host in saved.hosts if host is not None]
    holes = [row for row, host in enumerate(saved.hosts) if host is None]
    uids = {record.guest.uid for record in saved.guests}
    if len(set(names)) < len(names) or sorted(saved.free_rows) != holes:
        raise InputError("the checkpoint contradicts itself: a host is there twice, or free rows are not free")
    if not set(saved.improved_rows) <= set(range(len(saved.hosts))) or not uids.issuperset(saved.ready):
        raise InputError("the checkpoint contradicts itself: it names a row or a guest that is not there")
    nominated = {uid for uid in saved.nominations if not uid.startswith(GANG)}
    followed = {*nominated, *saved.evicting, *saved.moves, *saved.unmoved}
    if not uids.issuperset(followed):
        raise InputError("the checkpoint contradicts itself: it follows a guest that is not there")
    for entry in saved.queue.values():
        shape, policy = entry.key
        if not -1 <= shape < len(saved.shapes) or not -1 <= policy < len(saved.policies):
            raise InputError("the checkpoint contradicts itself: a queued guest has no shape or policy")


def _rebuild(saved: Checkpoint, registry: Registry, cache_budget: CacheBudget) -> State:
    _check(saved)
    state = State(saved.policies, saved.now, saved.seed, saved.rules, registry, cache_budget)
    state.decisions, state.arrivals, state.asks = saved.counters
    if saved.free_names is not None:
        state.use_names((saved.resources, saved.kinds, saved.models), saved.free_names)
    state.cluster.restore(saved.hosts, saved.free_rows)
    for reservation in saved.reservations:
        for name in reservation.resources:
            state.tables.resources.acquire(name)
    state.renumber()
    state.shapes.restore(saved.shapes)
    state.cluster.counters.namespaces = dict(saved.namespaces)
    parked = {host: set(uids) for host, uids in saved.parked.items()}
    state.parked = parked
    for saved_record in saved.guests:
        record = _restore_record(saved_record, state.shape(saved_record).spec, saved)
        uid = record.guest.uid
        state.put_guest(record)
        if record.guest.gang:
            state.gangs.enter(record.guest.gang, uid)
        if record.state in PLACED_STATES and uid not in parked.get(record.host, ()):
            row = state.cluster.row_of[record.host]
            state.cluster.book(row, state.shapes.shapes[record.shape], record.devices, uid)
    queued = {uid for uid, record in state.guests.items() if record.state == QUEUED}
    if queued != {uid for uid in saved.queue if not uid.startswith(GANG)}:
        raise InputError("the checkpoint contradicts itself: pending guests and the queue differ")
    state.queue = Queue.restore(saved.queue_stamp, saved.queue, saved.queue_opened)
    state.turns.by_policy = saved.turns
    state.left_guests = dict.fromkeys(saved.left_guests)
    state.left_hosts = saved.left_hosts
    state.ready = dict.fromkeys(saved.ready)
    state.deadlines = saved.deadlines
    state.improved_rows = set(saved.improved_rows)
    state.has_shifted = saved.has_shifted
    state.budgets = {budget.key: budget for budget in saved.budgets}
    state.nominations = saved.nominations
    state.evicting = saved.evicting
    state.attempts = saved.attempts
    state.cascades = {spec: (depth, at) for spec, depth, at in saved.cascades}
    for gang in saved.gangs:
        state.gangs.put(gang)
    state.gangs.broken_since = saved.gangs_broken
    state.gangs.refusals = saved.gangs_refused
    state.gangs.reserving = saved.gang_reserving
    denied, rests, turn = saved.searches_denied, saved.searches_rests, saved.searches_turn
    state.gangs.searches.restore(saved.searches, saved.searches_served, denied, rests, turn)
    state.moves = saved.moves
    state.unmoved = dict.fromkeys(saved.unmoved)
    state.ordered = dict.fromkeys(saved.ordered)
    state.spent = saved.spent
    state.unnominated = dict.fromkeys(saved.unnominated)
    state.abandoned = saved.abandoned
    placed = (record.guest.spec for record in state.guests.values() if record.state in PLACED_STATES)
    state.quotas.set(saved.quotas, placed)
    state.reservations = {reservation.name: reservation for reservation in saved.reservations}
    state.pass_of = saved.passes
    state.in_force = set(saved.reservations_in_force)
    state.cache.fit_passes(1 + max(saved.passes.values(), default=0))
    for name in state.reservations:
        Reservations(state).refresh(name)
    state.improved_rows, state.has_shifted = set(saved.improved_rows), saved.has_shifted
    state.widened_rows = set(saved.widened_rows)
    state.quota_freed = saved.quota_freed
    state.moved = {}
    for spec in saved.moved:
        state.note_move(state.shapes.shape_of(spec))
    state.shapes.order_unused(saved.idle_shapes, saved.free_shapes)
    for uid, nomination in saved.nominations.items():
        if nomination.host:
            hold_for_nominated(state, state.guests[uid], nomination.host)
    for uid in state.moves:
        hold_destination(state, uid)
    return state


def encode(checkpoint: Checkpoint) -> bytes:
    """Write a checkpoint as bytes."""
    return msgspec.msgpack.encode(checkpoint)


def decode(data: bytes) -> Checkpoint:
    """Read a checkpoint's bytes."""
    try:
        saved = msgspec.msgpack.decode(data, type=Checkpoint)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"this is not a checkpoint: {error}") from error
    if saved.format != FORMAT:
        raise InputError(f"the checkpoint has format {saved.format}, this version reads {FORMAT}")
    return saved


def _compact_record(record: GuestRecord, codes: dict[Reason, int]) -> GuestRecord:
    """Return a record without its spec, and with codes for reasons; new reasons are appended to ``codes``."""
    guest = replace(record.guest, spec=_NO_SPEC)
    if not record.reasons:  # as for most placed guests
        return replace(record, guest=guest)
    counts = tuple([(codes.setdefault(reason, len(codes)), hosts) for reason, hosts in record.reasons])
    return replace(record, guest=guest, reasons=(), counts=counts)


def _restore_record(record: GuestRecord, spec: GuestSpec, saved: Checkpoint) -> GuestRecord:
    """Return the record that ``_compact_record`` was given."""
    guest = replace(record.guest, spec=spec)
    if not record.counts and not record.note:  # as for most placed guests
        return replace(record, guest=guest)
    reasons = tuple((saved.reasons[code], hosts) for code, hosts in record.counts)
    if saved.free_names is None:  # older checkpoints name selectors by their position in the spec
        decided = record.decided_spec or spec
        reasons = tuple(
            (about(reason, decided) if reason.plugin == HostAffinity.name else reason, hosts)
            for reason, hosts in reasons
        )
    return replace(record, guest=guest, reasons=reasons, counts=(), notes=_notes(record), note="")


def _notes(record: GuestRecord) -> tuple[DecisionNote, ...]:
    """Return the notes of a record; checkpoints of older versions have texts."""
    if not record.note:
        return record.notes
    no_eviction_helps = DecisionNote(NO_EVICTION_HELPS)
    if record.note == note_text(no_eviction_helps):
        return (no_eviction_helps,)
    return (DecisionNote(RECORDED, said=record.note),)
