"""Journals without names: every name, uid, label and taint replaced consistently, and the decisions still the same.

New names sort like the old ones, and what random choices depend on is kept as numbers, so that a redacted journal
replays to the corresponding actions, which is checked. What stays: names of resources, device kinds and models,
policies and plugins, and whole numbers in labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from hostler.engine import checkpoint
from hostler.engine.engine import Engine
from hostler.engine.journal import Applied, Journal, Saved, Stepped, new_engine
from hostler.engine.randomness import guest_key, host_key, name_hash
from hostler.engine.registry import Registry
from hostler.errors import JournalError
from hostler.model import (
    Answered,
    BindFailed,
    Event,
    Expression,
    Guest,
    GuestArrived,
    GuestBound,
    GuestChanged,
    GuestLeft,
    GuestsArrived,
    GuestSpec,
    Host,
    HostChanged,
    HostJoined,
    HostLeft,
    HostsJoined,
    Labels,
    Policy,
    PolicyChanged,
    Prepared,
    Taint,
    Term,
    Toleration,
)

__all__ = ["redact"]

_INTEGER = re.compile(r"[+-]?[0-9]+")
# Names with a meaning of their own: the taint that tolerates a cordon.
_KEPT = frozenset({"", "default", "node.kubernetes.io/unschedulable"})

Rename = Callable[[str], str]


def redact(journal: Journal, registry: Registry | None = None) -> Journal:
    """Return the journal with all names replaced; raise when it does not replay as recorded."""
    seen: set[str] = set()

    def collect(name: str) -> str:
        seen.add(name)
        return name

    for entry in journal.entries:
        _redact_entry(entry, collect)
    new_names = {old: f"n{number:07d}" for number, old in enumerate(sorted(seen - _KEPT))}

    def rename(name: str) -> str:
        return new_names.get(name, name)

    header = msgspec.structs.replace(journal.header, redacted=True, policies=_policies(journal.header.policies))
    original, engine = new_engine(journal.header, registry), new_engine(header, registry)
    entries: list[Applied | Stepped | Saved] = []
    for number, entry in enumerate(journal.entries, 1):
        redacted = _redact_entry(entry, rename)
        if isinstance(redacted, Saved) and isinstance(entry, Saved):
            if number == 1:
                original = Engine.restore(entry.checkpoint, registry)
                engine = Engine.restore(redacted.checkpoint, registry)
        elif isinstance(redacted, Applied) and isinstance(entry, Applied):
            original.apply(entry.event)
            engine.apply(redacted.event)
        elif isinstance(redacted, Stepped) and isinstance(entry, Stepped):
            if tuple(original.step(entry.now, entry.limit)) != entry.actions:
                raise JournalError(
                    f"entry {number} does not replay as recorded, so it cannot be redacted",
                    hint="run hostler journal replay to see the difference",
                )
            redacted = Stepped(entry.now, entry.limit, tuple(engine.step(entry.now, entry.limit)))
            _check_same(number, entry, redacted, rename)
        entries.append(redacted)
    return Journal(header, tuple(entries), journal.torn)


def _check_same(number: int, entry: Stepped, redacted: Stepped, rename: Rename) -> None:
    """Refuse a redaction under which something else is decided: a plugin that reads names or labels may do that."""
    before = [(type(a), a.seq, rename(a.uid), rename(getattr(a, "host", ""))) for a in entry.actions]
    after = [(type(a), a.seq, a.uid, getattr(a, "host", "")) for a in redacted.actions]
    if before != after:
        raise JournalError(
            f"entry {number} decides otherwise without names, so the journal cannot be redacted",
            hint="a plugin of a policy reads names or labels; record the run without it to share it",
        )


def _redact_entry(entry: Applied | Stepped | Saved, rename: Rename) -> Applied | Stepped | Saved:
    if isinstance(entry, Applied):
        return Applied(_event(entry.event, rename))
    if isinstance(entry, Saved):
        return Saved(_checkpoint(entry.checkpoint, rename))
    return entry


def _event(event: Event, rename: Rename) -> Event:
    replace = msgspec.structs.replace
    match event:
        case HostJoined() | HostChanged():
            return replace(event, host=_host(event.host, rename))
        case HostsJoined():
            return replace(event, hosts=tuple(_host(host, rename) for host in event.hosts))
        case HostLeft():
            return replace(event, name=rename(event.name), uid=rename(event.uid))
        case GuestArrived() | GuestChanged():
            return replace(event, guest=_guest(event.guest, rename))
        case GuestsArrived():
            uids = event.uids or event.names
            return replace(
                event,
                specs=tuple(_spec(spec, rename) for spec in event.specs),
                names=tuple(map(rename, event.names)),
                uids=tuple(map(rename, uids)),
                hosts=tuple(map(rename, event.hosts)),
                draw_keys=event.draw_keys or tuple(map(name_hash, uids)),
            )
        case GuestLeft():
            return replace(event, uid=rename(event.uid))
        case GuestBound():
            return replace(event, uid=rename(event.uid), host=rename(event.host))
        case BindFailed():
            return replace(event, uid=rename(event.uid), host=rename(event.host), reason=_free(event.reason))
        case Answered():
            return _answered(event, rename)
        case PolicyChanged():
            return replace(event, policies=_policies(event.policies))
        case Prepared():
            return replace(event, uid=rename(event.uid), host=rename(event.host), error=_free(event.error))


def _answered(event: Answered, rename: Rename) -> Answered:
    return msgspec.structs.replace(
        event,
        uid=rename(event.uid),
        scores=tuple((rename(host), score) for host, score in event.scores),
        refused=tuple((rename(host), _free(why)) for host, why in event.refused),
        error=_free(event.error),
    )


def _policies(policies: Sequence[Policy]) -> tuple[Policy, ...]:
    """Drop the free text of policies; their names stay, because guests refer to them."""
    return tuple(msgspec.structs.replace(policy, summary="") for policy in policies)


def _free(text: str) -> str:
    """Replace free text, which may name anything."""
    return "redacted" if text else ""


def _host(host: Host, rename: Rename) -> Host:
    return msgspec.structs.replace(
        host,
        name=rename(host.name),
        uid=rename(host.uid),
        labels=_labels(host.labels, rename),
        taints=tuple(Taint(rename(t.key), _value(t.value, rename), t.effect) for t in host.taints),
        draw_key=host_key(host),
    )


def _guest(guest: Guest, rename: Rename) -> Guest:
    return msgspec.structs.replace(
        guest,
        name=rename(guest.name),
        uid=rename(guest.uid),
        spec=_spec(guest.spec, rename),
        host=rename(guest.host),
        draw_key=guest_key(guest),
    )


def _spec(spec: GuestSpec, rename: Rename) -> GuestSpec:
    return msgspec.structs.replace(
        spec,
        host_name=rename(spec.host_name),
        host_selector=_labels(spec.host_selector, rename),
        host_affinity=tuple(_term(term, rename) for term in spec.host_affinity),
        preferred_hosts=tuple(msgspec.structs.replace(p, term=_term(p.term, rename)) for p in spec.preferred_hosts),
        tolerations=tuple(_toleration(t, rename) for t in spec.tolerations),
        namespace=rename(spec.namespace),
        labels=_labels(spec.labels, rename),
        prepare=tuple(map(rename, spec.prepare)),
    )


def _labels(labels: Labels, rename: Rename) -> Labels:
    return tuple(sorted((rename(key), _value(value, rename)) for key, value in labels))


def _value(value: str, rename: Rename) -> str:
    """Rename a label's value; integers stay, because Gt and Lt compare them."""
    return value if _INTEGER.fullmatch(value) else rename(value)


def _term(term: Term, rename: Rename) -> Term:
    return Term(
        tuple(Expression(rename(e.key), e.operator, _values(e.values, rename)) for e in term.expressions),
        tuple(Expression(e.key, e.operator, tuple(map(rename, e.values))) for e in term.names),
    )


def _values(values: Iterable[str], rename: Rename) -> tuple[str, ...]:
    return tuple(_value(value, rename) for value in values)


def _toleration(toleration: Toleration, rename: Rename) -> Toleration:
    return msgspec.structs.replace(toleration, key=rename(toleration.key), value=_value(toleration.value, rename))


def _checkpoint(data: bytes, rename: Rename) -> bytes:
    """Rename everything in a checkpoint; reasons keep their codes and lose what they are about."""
    saved = checkpoint.decode(data)
    saved.policies = _policies(saved.policies)
    saved.shapes = [None if spec is None else _spec(spec, rename) for spec in saved.shapes]
    saved.hosts = [None if host is None else _host(host, rename) for host in saved.hosts]
    saved.guests = [
        msgspec.structs.replace(
            record,
            guest=_guest(record.guest, rename),
            host=rename(record.host),
            answer=None if record.answer is None else _answered(record.answer, rename),
            note=_free(record.note),
        )
        for record in saved.guests
    ]
    saved.queue = {rename(uid): entry for uid, entry in saved.queue.items()}
    for turn in saved.turns.values():
        turn.confirmed = (turn.confirmed[0], rename(turn.confirmed[1]))
        turn.in_flight = {seq: rename(host) for seq, host in turn.in_flight.items()}
        turn.last = rename(turn.last)
    saved.parked = {rename(host): [rename(uid) for uid in uids] for host, uids in saved.parked.items()}
    saved.left_guests = [rename(uid) for uid in saved.left_guests]
    saved.left_hosts = {rename(uid): version for uid, version in saved.left_hosts.items()}
    saved.ready = [rename(uid) for uid in saved.ready]
    saved.deadlines = [(at, number, rename(uid)) for at, number, uid in saved.deadlines]
    saved.reasons = [
        reason if reason.plugin in _STRUCTURAL else msgspec.structs.replace(reason, subject=f"n{number}")
        for number, reason in enumerate(saved.reasons)
    ]
    return checkpoint.encode(saved)


_STRUCTURAL = frozenset({"", "cordon", "host_name", "host_affinity", "resources", "devices"})
