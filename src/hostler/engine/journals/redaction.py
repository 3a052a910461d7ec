"""Journals without names: every name, uid, label and taint is replaced consistently, and the decisions stay the same.

New names sort like the old ones, and the keys of random draws are kept as numbers, so a redacted journal replays to the
corresponding actions. This is checked. These stay: names of resources, device kinds and models, policies and plugins
with their arguments (and label keys in them), the namespace ``default``, port numbers, and whole numbers in labels.
"""

from __future__ import annotations

import msgspec

from hostler.engine import checkpoint
from hostler.engine.cluster.randomness import name_hash
from hostler.engine.engine import Engine
from hostler.engine.journals.journal import CheckpointEntry, FactEntry, Journal, StepEntry, new_engine
from hostler.engine.journals.redaction_values import (
    NameMap,
    NewNames,
    redact_answer,
    redact_budget,
    redact_gang,
    redact_guest,
    redact_host,
    redact_labels,
    redact_note,
    redact_policies,
    redact_quota,
    redact_reservation,
    redact_spec,
    redact_text,
)
from hostler.engine.policy.registry import Registry
from hostler.engine.state.search_shares import SearchPosition
from hostler.errors import HostlerError, JournalError
from hostler.model import (
    Action,
    Answered,
    BindFailed,
    BudgetChanged,
    BudgetLeft,
    Event,
    EvictFailed,
    GangChanged,
    GangLeft,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestFailed,
    GuestLeft,
    GuestNominated,
    GuestsArrived,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    NamespaceChanged,
    PolicyChanged,
    Prepared,
    QuotasChanged,
    Reason,
    ReservationChanged,
    ReservationLeft,
)

__all__ = ["redact", "redact_event"]

_replace = msgspec.structs.replace

# Plugins whose reasons are about resources or device kinds, not about names that are replaced.
_STRUCTURAL = frozenset({"", "cordon", "host_name", "resources", "devices"})


def redact(journal: Journal, registry: Registry | None = None) -> Journal:
    """Return the journal with all names replaced; raise an error if it does not replay as recorded."""
    original = new_engine(journal.header, registry)
    seen = NameMap()
    policies = redact_policies(journal.header.policies, seen)
    for entry in journal.entries:
        _redact_entry(entry, seen)
    names = NewNames(seen)
    header = _replace(journal.header, redacted=True, policies=policies)
    engine = new_engine(header, registry)
    entries: list[FactEntry | StepEntry | CheckpointEntry] = []
    for number, entry in enumerate(journal.entries, 1):
        redacted = _redact_entry(entry, names)
        if isinstance(redacted, CheckpointEntry) and isinstance(entry, CheckpointEntry):
            if number == 1:
                original = Engine.restore(entry.checkpoint, registry)
                engine = Engine.restore(redacted.checkpoint, registry)
        elif isinstance(redacted, FactEntry) and isinstance(entry, FactEntry):
            original.apply(entry.event)
            engine.apply(redacted.event)
        elif isinstance(redacted, StepEntry) and isinstance(entry, StepEntry):
            redacted = _redact_step(number, entry, original, engine)
            _check_same(number, entry, redacted, names)
        entries.append(redacted)
    return Journal(header, tuple(entries), journal.torn)


def _redact_step(number: int, entry: StepEntry, original: Engine, engine: Engine) -> StepEntry:
    """Step both engines and return the redacted step."""
    actions, has_failed = _step(original, entry)
    if actions != entry.actions or has_failed != bool(entry.error):
        raise JournalError(
            f"entry {number} does not replay as recorded, so it cannot be redacted",
            hint="run hostler journal replay to see the difference",
        )
    actions, has_failed = _step(engine, entry)
    return StepEntry(entry.now, entry.limit, actions, error=redact_text("failed" if has_failed else ""))


def _step(engine: Engine, entry: StepEntry) -> tuple[tuple[Action, ...], bool]:
    """Return an engine's actions in a step, and whether it fails as recorded, by a plugin's fault."""
    try:
        return tuple(engine.step(entry.now, entry.limit)), False
    except HostlerError:
        return (), True


def _check_same(number: int, entry: StepEntry, redacted: StepEntry, names: NewNames) -> None:
    """Reject a redaction that changes a decision: plugins that read names or labels can cause that."""
    before = [_essence(action, names) for action in entry.actions]
    after = [_essence(action, None) for action in redacted.actions]
    if before != after or bool(entry.error) != bool(redacted.error):
        raise JournalError(
            f"entry {number} decides otherwise without names, so the journal cannot be redacted",
            hint="a plugin of a policy reads names or labels; record the run without it to share it",
        )


def _essence(action: Action, names: NewNames | None) -> tuple[object, ...]:
    """Return what an action does to which guest, under new names; texts are ignored."""
    victims: tuple[str, ...] = getattr(action, "victims", ())
    who = (
        action.uid,
        getattr(action, "host", ""),
        getattr(action, "target", ""),
        getattr(action, "preemptor", ""),
        *victims,
    )
    who = who if names is None else tuple(map(names.entry, who))
    return type(action), action.seq, who, getattr(action, "devices", ())


def _redact_entry(
    entry: FactEntry | StepEntry | CheckpointEntry, names: NameMap
) -> FactEntry | StepEntry | CheckpointEntry:
    if isinstance(entry, FactEntry):
        return FactEntry(redact_event(entry.event, names))
    if isinstance(entry, CheckpointEntry):
        return CheckpointEntry(_checkpoint(entry.checkpoint, names))
    return entry


def redact_event(event: Event, names: NameMap) -> Event:
    """Return the event with its names replaced."""
    match event:
        case HostJoined() | HostChanged():
            return _replace(event, host=redact_host(event.host, names))
        case HostsJoined():
            return _replace(event, hosts=tuple(redact_host(host, names) for host in event.hosts))
        case HostLeft():
            return _replace(event, name=names.name(event.name), uid=names.name(event.uid))
        case GuestArrived() | GuestChanged():
            return _replace(event, guest=redact_guest(event.guest, names))
        case GuestsArrived():
            return _guests_arrived(event, names)
        case GuestLeft():
            return _replace(event, uid=names.name(event.uid))
        case GuestBound() | GuestNominated():
            return _replace(event, uid=names.name(event.uid), host=names.name(event.host))
        case BindFailed():
            uid, host = names.name(event.uid), names.name(event.host)
            return _replace(event, uid=uid, host=host, reason=redact_text(event.reason))
        case Answered():
            return redact_answer(event, names)
        case Prepared():
            uid, host = names.name(event.uid), names.name(event.host)
            return _replace(event, uid=uid, host=host, error=redact_text(event.error))
        case EvictFailed() | GuestFailed():
            return _replace(event, uid=names.name(event.uid), reason=redact_text(event.reason))
        case PolicyChanged():
            return _replace(event, policies=redact_policies(event.policies, names))
        case _:
            return _tenancy_event(event, names)


def _tenancy_event(
    event: NamespaceChanged
    | GangChanged
    | GangLeft
    | BudgetChanged
    | BudgetLeft
    | QuotasChanged
    | ReservationChanged
    | ReservationLeft,
    names: NameMap,
) -> Event:
    match event:
        case NamespaceChanged():
            return _replace(event, name=names.namespace(event.name), labels=redact_labels(event.labels, names))
        case GangChanged():
            return _replace(event, gang=redact_gang(event.gang, names))
        case BudgetChanged():
            return _replace(event, budget=redact_budget(event.budget, names))
        case GangLeft() | BudgetLeft():
            return _replace(event, key=names.path(event.key))
        case QuotasChanged():
            return _replace(event, quotas=tuple(redact_quota(quota, names) for quota in event.quotas))
        case ReservationChanged():
            return _replace(event, reservation=redact_reservation(event.reservation, names))
        case ReservationLeft():
            return _replace(event, name=names.name(event.name))


def _guests_arrived(event: GuestsArrived, names: NameMap) -> GuestsArrived:
    uids = event.uids or event.names
    return _replace(
        event,
        specs=tuple(redact_spec(spec, names) for spec in event.specs),
        names=tuple(map(names.name, event.names)),
        uids=tuple(map(names.name, uids)),
        hosts=tuple(map(names.name, event.hosts)),
        draw_keys=event.draw_keys or tuple(map(name_hash, uids)),
    )


def _checkpoint(data: bytes, names: NameMap) -> bytes:
    """Rename everything in a checkpoint; reasons keep their codes and lose their subjects."""
    saved = checkpoint.decode(data)
    name, entry = names.name, names.entry
    # Older checkpoints name selectors by their position, which says nothing and is looked up.
    plain = _STRUCTURAL if saved.free_names is not None else _STRUCTURAL | {"host_affinity"}
    saved.policies = redact_policies(saved.policies, names)
    saved.shapes = [None if spec is None else redact_spec(spec, names) for spec in saved.shapes]
    saved.hosts = [None if host is None else redact_host(host, names) for host in saved.hosts]
    saved.guests = [
        _replace(
            record,
            guest=redact_guest(record.guest, names),
            host=name(record.host),
            answer=None if record.answer is None else redact_answer(record.answer, names),
            notes=tuple(redact_note(note, names) for note in record.notes),
            note=redact_text(record.note),
            reasons=tuple((_reason(reason, 0, plain), hosts) for reason, hosts in record.reasons),
            decided_spec=None if record.decided_spec is None else redact_spec(record.decided_spec, names),
        )
        for record in saved.guests
    ]
    saved.queue = {entry(uid): place for uid, place in saved.queue.items()}
    for turn in saved.turns.values():
        turn.confirmed = (turn.confirmed[0], name(turn.confirmed[1]))
        turn.in_flight = {seq: name(host) for seq, host in turn.in_flight.items()}
        turn.last = name(turn.last)
    saved.parked = {name(host): [name(uid) for uid in uids] for host, uids in saved.parked.items()}
    saved.left_guests = [name(uid) for uid in saved.left_guests]
    saved.left_hosts = {name(uid): version for uid, version in saved.left_hosts.items()}
    saved.ready = [name(uid) for uid in saved.ready]
    saved.deadlines = [(at, number, entry(uid)) for at, number, uid in saved.deadlines]
    saved.reasons = [_reason(reason, number, plain) for number, reason in enumerate(saved.reasons)]
    saved.moved = [redact_spec(spec, names) for spec in saved.moved]
    _tenancy(saved, names)
    return checkpoint.encode(saved)


def _tenancy(saved: checkpoint.Checkpoint, names: NameMap) -> None:
    """Rename namespaces, budgets, gangs and evictions in a checkpoint."""
    name, entry, path = names.name, names.entry, names.path
    saved.namespaces = {names.namespace(key): redact_labels(own, names) for key, own in saved.namespaces.items()}
    saved.budgets = [redact_budget(budget, names) for budget in saved.budgets]
    saved.gangs = [redact_gang(gang, names) for gang in saved.gangs]
    saved.gangs_broken = {path(key): since for key, since in saved.gangs_broken.items()}
    saved.nominations = {
        entry(uid): _replace(found, host=name(found.host), victims=tuple(map(entry, found.victims)))
        for uid, found in saved.nominations.items()
    }
    saved.evicting = {entry(uid): entry(preemptor) for uid, preemptor in saved.evicting.items()}
    saved.moves = {
        entry(uid): _replace(move, host=name(move.host), replacement=name(move.replacement))
        for uid, move in saved.moves.items()
    }
    saved.unmoved = [entry(uid) for uid in saved.unmoved]
    saved.attempts = {
        entry(uid): _replace(found, made=tuple((at, name(host), guests) for at, host, guests in found.made))
        for uid, found in saved.attempts.items()
    }
    saved.ordered = [entry(uid) for uid in saved.ordered]
    saved.spent = {path(key): count for key, count in saved.spent.items()}
    saved.unnominated = [entry(uid) for uid in saved.unnominated]
    saved.abandoned = {entry(uid): name(host) for uid, host in saved.abandoned.items()}
    saved.gangs_refused = {path(key): refusals for key, refusals in saved.gangs_refused.items()}
    saved.searches = {path(key): _search(position, names) for key, position in saved.searches.items()}
    saved.searches_served = {names.searcher(one): turn for one, turn in saved.searches_served.items()}
    saved.searches_rests = {names.searcher(one): until for one, until in saved.searches_rests.items()}
    saved.searches_denied = [names.searcher(one) for one in saved.searches_denied]
    saved.gang_reserving = path(saved.gang_reserving) if saved.gang_reserving else ""
    saved.quotas = [redact_quota(quota, names) for quota in saved.quotas]
    saved.reservations = [redact_reservation(reservation, names) for reservation in saved.reservations]
    saved.passes = {name(known): number for known, number in saved.passes.items()}
    saved.reservations_in_force = sorted(name(known) for known in saved.reservations_in_force)
    saved.cascades = [(redact_spec(spec, names), depth, at) for spec, depth, at in saved.cascades]


def _reason(reason: Reason, number: int, plain: frozenset[str]) -> Reason:
    if not reason.subject or reason.plugin in plain:
        return reason
    return _replace(reason, subject=f"n{number}")


def _search(position: SearchPosition, names: NameMap) -> SearchPosition:
    best, rank = position.best, position.reprieved
    return _replace(
        position,
        tenant=names.searcher(position.tenant),
        about=tuple((names.entry(uid), shape, policy) for uid, shape, policy in position.about),
        topology=names.key(position.topology) if position.topology else "",
        domain=names.value(position.domain) if position.domain else "",
        domains=None if position.domains is None else [names.value(one) for one in position.domains],
        best=None if best is None else (best[0], names.value(best[1])),
        reprieved=None if rank is None else (*rank[:4], tuple(names.entry(uid) for uid in rank[4])),
        victims=[names.entry(uid) for uid in position.victims],
    )
