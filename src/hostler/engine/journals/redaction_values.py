"""Replacement of the names in hosts, guests and tenancy, for redacted journals.

New names sort like the old ones, including names made of a namespace and a name. Label keys stay if a policy's
arguments contain them or the engine gives them a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count

import msgspec

from hostler.engine.cluster.randomness import gang_key, guest_key, host_key
from hostler.engine.state.gang_book import GANG
from hostler.engine.state.reservations import RESERVATION
from hostler.model import (
    Answered,
    Budget,
    DecisionNote,
    Expression,
    Gang,
    Guest,
    GuestSpec,
    GuestTerm,
    Host,
    HostShare,
    Labels,
    Policy,
    Quota,
    Reservation,
    Selector,
    Spread,
    Taint,
    Term,
    Toleration,
    WeightedGuestTerm,
)
from hostler.model.hosts import HOSTNAME

__all__ = [
    "NameMap", "NewNames", "redact_answer", "redact_budget", "redact_gang", "redact_guest", "redact_host",
    "redact_labels", "redact_note", "redact_policies", "redact_quota", "redact_reservation", "redact_spec",
    "redact_text",
]  # fmt: skip

_INTEGER = re.compile(r"[+-]?[0-9]+")
# Keys with a meaning of their own: the taint that tolerates a cordon, the label that makes every host a domain, and
# what terms on a host's own name are written with.
_KEPT_KEYS = frozenset({"", "node.kubernetes.io/unschedulable", HOSTNAME, "metadata.name"})
_KEPT_NAMESPACE = "default"  # the model's default, which tells nothing

_replace = msgspec.structs.replace


class NameMap:
    """The names of a run. This class records them and leaves them unchanged; ``NewNames`` replaces them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.namespaces: set[str] = set()
        self.kept_keys: set[str] = set(_KEPT_KEYS)

    def name(self, old: str) -> str:
        """Return the replacement of a name of a host, guest, image, tenant and so on."""
        self.names.add(old)
        return old

    def key(self, old: str) -> str:
        """Return the replacement of a label or taint key, and so of a topology."""
        self.names.add(old)
        return old

    def namespace(self, old: str) -> str:
        """Return the replacement of a namespace."""
        self.namespaces.add(old)
        return old

    def value(self, old: str) -> str:
        """Return the replacement of a label value; integers stay, because Gt and Lt compare them."""
        return old if _INTEGER.fullmatch(old) else self.name(old)

    def path(self, old: str) -> str:
        """Return the replacement of namespace/name, the key of gangs and budgets."""
        namespace, slash, name = old.partition("/")
        return f"{self.namespace(namespace)}/{self.name(name)}" if slash else self.name(old)

    def entry(self, old: str) -> str:
        """Return the replacement of a uid, or of the key of a gang or reservation in tables of guests."""
        if old.startswith(RESERVATION):
            return RESERVATION + self.name(old.removeprefix(RESERVATION))
        return GANG + self.path(old.removeprefix(GANG)) if old.startswith(GANG) else self.name(old)

    def searcher(self, old: str) -> str:
        """Return the replacement of a tenant or namespace that has a share of gang searches."""
        return f"{self.namespace(old.removesuffix('/'))}/" if old.endswith("/") else self.name(old)

    def keep_keys(self, args: str) -> None:
        """Keep label keys that appear in a plugin's arguments: the arguments stay, so renaming would hide nothing."""
        with suppress(msgspec.DecodeError, RecursionError):  # an engine refuses such arguments, and says why
            self.kept_keys.update(_strings(msgspec.json.decode(args or "null")))


class NewNames(NameMap):
    """Replaces every recorded name."""

    def __init__(self, seen: NameMap) -> None:
        super().__init__()
        self.kept_keys = seen.kept_keys
        self._new = self._numbered(sorted(seen.names - {""}), "n")
        # "/" follows a namespace where it stands before a name. So "a-b" sorts before "a".
        spaces = sorted(seen.namespaces - {"", _KEPT_NAMESPACE}, key=lambda name: f"{name}/")
        before = [name for name in spaces if f"{name}/" < f"{_KEPT_NAMESPACE}/"]
        self._new_spaces = self._numbered(before, "a") | self._numbered(spaces[len(before) :], "s")

    def name(self, old: str) -> str:
        """Return the new name."""
        return self._new.get(old, old)

    def key(self, old: str) -> str:
        """Return the new key, or the old one if it has a meaning."""
        return old if old in self.kept_keys else self.name(old)

    def namespace(self, old: str) -> str:
        """Return the new namespace."""
        return self._new_spaces.get(old, old)

    def _numbered(self, names: Sequence[str], letter: str) -> dict[str, str]:
        """Return new names in the order of the old ones, none of them equal to a kept key."""
        width = max(7, len(str(len(names) + len(self.kept_keys))))
        fresh = (f"{letter}{number:0{width}d}" for number in count())
        return dict(zip(names, (new for new in fresh if new not in self.kept_keys), strict=False))


def _strings(value: object) -> Iterable[str]:
    """Return all strings in decoded JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


# -- answers and policies ----------------------------------------------------------------------------------------------


def redact_answer(event: Answered, names: NameMap) -> Answered:
    """Return an answer with its names replaced."""
    return _replace(
        event,
        uid=names.name(event.uid),
        scores=tuple((names.name(host), score) for host, score in event.scores),
        refused=tuple((names.name(host), redact_text(why)) for host, why in event.refused),
        error=redact_text(event.error),
    )


def redact_policies(policies: Sequence[Policy], names: NameMap) -> tuple[Policy, ...]:
    """Drop the free text of policies. Their names and arguments stay, because guests refer to them."""
    for policy in policies:
        for args in (*(use.args for use in policy.filters), *(use.args for use in policy.scorers)):
            names.keep_keys(args)
    return tuple(_replace(policy, summary="") for policy in policies)


def redact_note(note: DecisionNote, names: NameMap) -> DecisionNote:
    """Return a note of a decision with its names replaced; its code and counts stay."""
    key, equals, value = note.place.partition("=")
    return _replace(
        note,
        subject=names.path(note.subject),
        place=f"{names.key(key)}{equals}{names.value(value)}" if equals else names.name(key),
        said=redact_text(note.said),
    )


def redact_text(text: str) -> str:
    """Replace free text, which may name anything."""
    return "redacted" if text else ""


# -- hosts and guests -------------------------------------------------------------------------------------------------


def redact_host(host: Host, names: NameMap) -> Host:
    """Return the host with its names replaced."""
    return _replace(
        host,
        name=names.name(host.name),
        uid=names.name(host.uid),
        labels=redact_labels(host.labels, names),
        taints=tuple(Taint(names.key(t.key), names.value(t.value), t.effect) for t in host.taints),
        images=tuple((names.name(image), size) for image, size in host.images),
        draw_key=host_key(host),
    )


def redact_guest(guest: Guest, names: NameMap) -> Guest:
    """Return the guest with its names replaced."""
    return _replace(
        guest,
        name=names.name(guest.name),
        uid=names.name(guest.uid),
        spec=redact_spec(guest.spec, names),
        host=names.name(guest.host),
        gang=names.path(guest.gang),
        replaces=names.name(guest.replaces),
        draw_key=guest_key(guest),
    )


def redact_spec(spec: GuestSpec, names: NameMap) -> GuestSpec:
    """Return the shape with its names replaced; different shapes stay different."""
    return _replace(
        spec,
        host_name=names.name(spec.host_name),
        host_selector=redact_labels(spec.host_selector, names),
        host_affinity=_terms(spec.host_affinity, names),
        preferred_hosts=tuple(_replace(p, term=_term(p.term, names)) for p in spec.preferred_hosts),
        tolerations=tuple(_toleration(t, names) for t in spec.tolerations),
        namespace=names.namespace(spec.namespace),
        labels=redact_labels(spec.labels, names),
        affinity=tuple(_guest_term(term, names) for term in spec.affinity),
        anti_affinity=tuple(_guest_term(term, names) for term in spec.anti_affinity),
        preferred_affinity=_weighted(spec.preferred_affinity, names),
        preferred_anti_affinity=_weighted(spec.preferred_anti_affinity, names),
        spread=tuple(_spread(spread, names) for spread in spec.spread),
        siblings=_selector(spec.siblings, names),
        ports=tuple(_replace(port, address=names.name(port.address)) for port in spec.ports),
        images=tuple(map(names.name, spec.images)),
        tenant=names.name(spec.tenant),
        unsupported=tuple(map(names.name, spec.unsupported)),
        prepare=tuple(map(names.name, spec.prepare)),
        move_labels=None if spec.move_labels is None else redact_labels(spec.move_labels, names),
    )


def redact_labels(labels: Labels, names: NameMap) -> Labels:
    """Rename labels and keep their order, because reasons refer to selectors by position."""
    return tuple((names.key(key), names.value(value)) for key, value in labels)


def _expressions(expressions: Sequence[Expression], names: NameMap) -> tuple[Expression, ...]:
    return tuple(Expression(names.key(e.key), e.operator, tuple(map(names.value, e.values))) for e in expressions)


def _term(term: Term, names: NameMap) -> Term:
    own_name = (Expression(names.key(e.key), e.operator, tuple(map(names.name, e.values))) for e in term.names)
    return Term(_expressions(term.expressions, names), tuple(own_name))


def _terms(terms: Sequence[Term], names: NameMap) -> tuple[Term, ...]:
    return tuple(_term(term, names) for term in terms)


def _toleration(toleration: Toleration, names: NameMap) -> Toleration:
    return _replace(toleration, key=names.key(toleration.key), value=names.value(toleration.value))


def _selector(selector: Selector | None, names: NameMap) -> Selector | None:
    return None if selector is None else Selector(_expressions(selector.expressions, names))


def _guest_term(term: GuestTerm, names: NameMap) -> GuestTerm:
    return _replace(
        term,
        topology=names.key(term.topology),
        selector=_selector(term.selector, names),
        namespaces=tuple(map(names.namespace, term.namespaces)),
        namespace_selector=_selector(term.namespace_selector, names),
    )


def _weighted(terms: Sequence[WeightedGuestTerm], names: NameMap) -> tuple[WeightedGuestTerm, ...]:
    return tuple(_replace(weighted, term=_guest_term(weighted.term, names)) for weighted in terms)


def _spread(spread: Spread, names: NameMap) -> Spread:
    return _replace(spread, topology=names.key(spread.topology), selector=_selector(spread.selector, names))


# -- gangs, budgets, quotas, reservations -----------------------------------------------------------------------------


def redact_gang(gang: Gang, names: NameMap) -> Gang:
    """Return the gang with its names replaced."""
    return _replace(
        gang,
        name=names.name(gang.name),
        namespace=names.namespace(gang.namespace),
        topology=names.key(gang.topology),
        draw_key=gang_key(gang),
    )


def redact_budget(budget: Budget, names: NameMap) -> Budget:
    """Return the budget with its names replaced."""
    return _replace(
        budget,
        name=names.name(budget.name),
        namespace=names.namespace(budget.namespace),
        selector=_selector(budget.selector, names),
        disrupted=tuple(map(names.name, budget.disrupted)),
    )


def redact_quota(quota: Quota, names: NameMap) -> Quota:
    """Return the quota with its names replaced."""
    return _replace(quota, tenant=names.name(quota.tenant))


def redact_reservation(reservation: Reservation, names: NameMap) -> Reservation:
    """Return the reservation with its names replaced."""
    return _replace(
        reservation,
        name=names.name(reservation.name),
        hosts=_terms(reservation.hosts, names),
        shares=tuple(HostShare(names.name(host), kept) for host, kept in reservation.shares),  # their order stays
        tenant=names.name(reservation.tenant),
        gang=names.path(reservation.gang),
        selector=_selector(reservation.selector, names),
    )
