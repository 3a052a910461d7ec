"""All decision state as bytes, and back: after a restore the next decisions equal those of a twin that never stopped.

Columns and verdicts are not written; they follow from hosts and placements. Guests refer to shapes by number, so that
a spec is written once.
"""

from __future__ import annotations

import msgspec

from hostler.engine.profiles import Profiles
from hostler.engine.queue import Entry, Queue
from hostler.engine.records import PLACED_STATES, QUEUED, GuestRecord
from hostler.engine.registry import Registry
from hostler.engine.state import State
from hostler.engine.turns import Turn
from hostler.errors import InputError
from hostler.model import GuestSpec, Host, Policy, QueueRules, Reason

__all__ = ["FORMAT", "Checkpoint", "decode", "encode", "load", "save"]

FORMAT = 1
_NO_SPEC = GuestSpec()


class Checkpoint(msgspec.Struct, omit_defaults=True):
    """What is written."""

    format: int
    policies: tuple[Policy, ...]
    seed: int
    now: int
    rules: QueueRules
    counters: tuple[int, int, int]  # decisions, arrivals, asks
    resources: list[str]
    kinds: list[str]
    models: list[str]
    reasons: list[Reason]
    shapes: list[GuestSpec | None]
    hosts: list[Host | None]
    free_rows: list[int]
    guests: list[GuestRecord]
    queue_stamp: int
    queue: dict[str, Entry]
    turns: dict[str, Turn]
    parked: dict[str, list[str]]
    left_guests: list[str]
    left_hosts: dict[str, int]
    ready: list[str]
    deadlines: list[tuple[int, int, str]]
    improved_rows: list[int]


def save(state: State) -> bytes:
    """Write all decision state."""
    stamp, entries = state.queue.saved()
    return encode(
        Checkpoint(
            format=FORMAT,
            policies=state.profiles.policies,
            seed=state.seed,
            now=state.now,
            rules=state.rules,
            counters=(state.decisions, state.arrivals, state.asks),
            resources=state.tables.resources.values,
            kinds=state.tables.kinds.values,
            models=state.tables.models.values,
            reasons=state.tables.reasons.values,
            shapes=state.shapes.saved(),
            hosts=state.cluster.host_at,
            free_rows=state.cluster.free_rows,
            guests=[_without_spec(record) for record in state.guests.values()],
            queue_stamp=stamp,
            queue=entries,
            turns=state.turns.by_policy,
            parked={host: sorted(uids) for host, uids in sorted(state.parked.items())},
            left_guests=list(state.left_guests),
            left_hosts=state.left_hosts,
            ready=list(state.ready),
            deadlines=sorted(state.deadlines),
            improved_rows=sorted(state.improved_rows),
        )
    )


def load(data: bytes, registry: Registry) -> State:
    """Read what ``save`` wrote; one that contradicts itself is refused."""
    saved = decode(data)
    try:
        return _rebuild(saved, registry)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"the checkpoint contradicts itself: {type(error).__name__}: {error}") from error


def _rebuild(saved: Checkpoint, registry: Registry) -> State:
    state = State(saved.policies, saved.now, saved.seed, saved.rules, registry)
    state.decisions, state.arrivals, state.asks = saved.counters
    tables = state.tables
    tables.resources.refill(saved.resources)
    tables.kinds.refill(saved.kinds)
    tables.models.refill(saved.models)
    tables.reasons.refill(saved.reasons)
    state.use_policies(Profiles(saved.policies, state.cluster, registry))  # plugins hold codes of the tables above
    state.shapes.restore(saved.shapes)
    state.cluster.restore(saved.hosts, saved.free_rows)
    parked = {host: set(uids) for host, uids in saved.parked.items()}
    state.parked = parked
    for saved_record in saved.guests:
        record = _with_spec(saved_record, state.shape(saved_record).spec)
        uid = record.guest.uid
        state.keep(record)
        if record.state in PLACED_STATES and uid not in parked.get(record.host, ()):
            row = state.cluster.row_of[record.host]
            state.cluster.book(row, state.shapes.shapes[record.shape], record.devices, uid)
    queued = {uid for uid, record in state.guests.items() if record.state == QUEUED}
    if queued != saved.queue.keys():
        raise InputError("the checkpoint contradicts itself: pending guests and the queue differ")
    state.queue = Queue.restored(saved.queue_stamp, saved.queue)
    state.turns.by_policy = saved.turns
    state.left_guests = dict.fromkeys(saved.left_guests)
    state.left_hosts = saved.left_hosts
    state.ready = dict.fromkeys(saved.ready)
    state.deadlines = saved.deadlines
    state.improved_rows = set(saved.improved_rows)
    return state


def encode(checkpoint: Checkpoint) -> bytes:
    """Write a checkpoint as bytes."""
    return msgspec.msgpack.encode(checkpoint)


def decode(data: bytes) -> Checkpoint:
    """Read a checkpoint's bytes."""
    try:
        saved = msgspec.msgpack.decode(data, type=Checkpoint)
    except msgspec.MsgspecError as error:
        raise InputError(f"this is not a checkpoint: {error}") from error
    if saved.format != FORMAT:
        raise InputError(f"the checkpoint has format {saved.format}, this version reads {FORMAT}")
    return saved


def _without_spec(record: GuestRecord) -> GuestRecord:
    return msgspec.structs.replace(record, guest=msgspec.structs.replace(record.guest, spec=_NO_SPEC))


def _with_spec(record: GuestRecord, spec: GuestSpec) -> GuestRecord:
    return msgspec.structs.replace(record, guest=msgspec.structs.replace(record.guest, spec=spec))
