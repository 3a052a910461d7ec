"""Hosts, guests and what binds them without names: what every name is replaced by.

New names sort like the old ones, also those that are made of a namespace and a name. Label keys that policies name in
their arguments, or that the engine itself knows, stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count

import msgspec

from hostler.engine.asks import HOSTNAME
from hostler.engine.gang_book import GANG
from hostler.engine.randomness import gang_key, guest_key, host_key
from hostler.engine.reservations import RESERVATION
from hostler.model import (
    Answered,
    Budget,
    Expression,
    Gang,
    Guest,
    GuestSpec,
    GuestTerm,
    Host,
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

__all__ = [
    "Names",
    "NewNames",
    "redact_answer",
    "redact_budget",
    "redact_gang",
    "redact_guest",
    "redact_host",
    "redact_labels",
    "redact_policies",
    "redact_quota",
    "redact_reservation",
    "redact_spec",
    "redact_text",
]

_INTEGER = re.compile(r"[+-]?[0-9]+")
# Keys with a meaning of their own: the taint that tolerates a cordon, the label that makes every host a domain, and
# what terms on a host's own name are written with.
_KEPT_KEYS = frozenset({"", "node.kubernetes.io/unschedulable", HOSTNAME, "metadata.name"})
_KEPT_NAMESPACE = "default"  # the model's default, which tells nothing

_replace = msgspec.structs.replace


class Names:
    """The names of a run. This one notes them and leaves them as they are; ``NewNames`` replaces them."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.namespaces: set[str] = set()
        self.kept_keys: set[str] = set(_KEPT_KEYS)

    def name(self, old: str) -> str:
        """Return what becomes of a name: of a host, a guest, an image, a tenant and so on."""
        self.names.add(old)
        return old

    def key(self, old: str) -> str:
        """Return what becomes of the key of a label or a taint, and so of a topology."""
        self.names.add(old)
        return old

    def namespace(self, old: str) -> str:
        """Return what becomes of a namespace."""
        self.namespaces.add(old)
        return old

    def value(self, old: str) -> str:
        """Return what becomes of a label's value; integers stay, because Gt and Lt compare them."""
        return old if _INTEGER.fullmatch(old) else self.name(old)

    def path(self, old: str) -> str:
        """Return what becomes of namespace/name, which is how gangs and budgets are referred to."""
        namespace, slash, name = old.partition("/")
        return f"{self.namespace(namespace)}/{self.name(name)}" if slash else self.name(old)

    def entry(self, old: str) -> str:
        """Return what becomes of a guest's uid, or of what gangs and reservations are called beside guests."""
        if old.startswith(RESERVATION):
            return RESERVATION + self.name(old.removeprefix(RESERVATION))
        return GANG + self.path(old.removeprefix(GANG)) if old.startswith(GANG) else self.name(old)

    def searcher(self, old: str) -> str:
        """Return what becomes of a tenant, or of a namespace, that has a share of the search for gangs."""
        return f"{self.namespace(old.removesuffix('/'))}/" if old.endswith("/") else self.name(old)

    def keep_keys(self, args: str) -> None:
        """Keep label keys that a plugin's arguments name: the arguments stay, so nothing is hidden by renaming them."""
        with suppress(msgspec.DecodeError, RecursionError):  # an engine refuses such arguments, and says why
            self.kept_keys.update(_strings(msgspec.json.decode(args or "null")))


class NewNames(Names):
    """Replaces every name that was noted."""

    def __init__(self, seen: Names) -> None:
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
        """Return the new key, or the old one where that has a meaning."""
        return old if old in self.kept_keys else self.name(old)

    def namespace(self, old: str) -> str:
        """Return the new namespace."""
        return self._new_spaces.get(old, old)

    def _numbered(self, names: Sequence[str], letter: str) -> dict[str, str]:
        """Return new names in the order of the old ones, none of which is the name of a kept key."""
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


def redact_answer(event: Answered, names: Names) -> Answered:
    """Return an answer with its names replaced."""
    return _replace(
        event,
        uid=names.name(event.uid),
        scores=tuple((names.name(host), score) for host, score in event.scores),
        refused=tuple((names.name(host), redact_text(why)) for host, why in event.refused),
        error=redact_text(event.error),
    )


def redact_policies(policies: Sequence[Policy], names: Names) -> tuple[Policy, ...]:
    """Drop the free text of policies; their names stay, because guests refer to them, and so do arguments."""
    for policy in policies:
        for args in (*(use.args for use in policy.filters), *(use.args for use in policy.scorers)):
            names.keep_keys(args)
    return tuple(_replace(policy, summary="") for policy in policies)


def redact_text(text: str) -> str:
    """Replace free text, which may name anything."""
    return "redacted" if text else ""


# -- hosts and guests -------------------------------------------------------------------------------------------------


def redact_host(host: Host, names: Names) -> Host:
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


def redact_guest(guest: Guest, names: Names) -> Guest:
    """Return the guest with its names replaced."""
    return _replace(
        guest,
        name=names.name(guest.name),
        uid=names.name(guest.uid),
        spec=redact_spec(guest.spec, names),
        host=names.name(guest.host),
        gang=names.path(guest.gang),
        draw_key=guest_key(guest),
    )


def redact_spec(spec: GuestSpec, names: Names) -> GuestSpec:
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
    )


def redact_labels(labels: Labels, names: Names) -> Labels:
    """Rename labels in their order: refusals name selectors by position."""
    return tuple((names.key(key), names.value(value)) for key, value in labels)


def _expressions(expressions: Sequence[Expression], names: Names) -> tuple[Expression, ...]:
    return tuple(Expression(names.key(e.key), e.operator, tuple(map(names.value, e.values))) for e in expressions)


def _term(term: Term, names: Names) -> Term:
    own_name = (Expression(names.key(e.key), e.operator, tuple(map(names.name, e.values))) for e in term.names)
    return Term(_expressions(term.expressions, names), tuple(own_name))


def _terms(terms: Sequence[Term], names: Names) -> tuple[Term, ...]:
    return tuple(_term(term, names) for term in terms)


def _toleration(toleration: Toleration, names: Names) -> Toleration:
    return _replace(toleration, key=names.key(toleration.key), value=names.value(toleration.value))


def _selector(selector: Selector | None, names: Names) -> Selector | None:
    return None if selector is None else Selector(_expressions(selector.expressions, names))


def _guest_term(term: GuestTerm, names: Names) -> GuestTerm:
    return _replace(
        term,
        topology=names.key(term.topology),
        selector=_selector(term.selector, names),
        namespaces=tuple(map(names.namespace, term.namespaces)),
        namespace_selector=_selector(term.namespace_selector, names),
    )


def _weighted(terms: Sequence[WeightedGuestTerm], names: Names) -> tuple[WeightedGuestTerm, ...]:
    return tuple(_replace(weighted, term=_guest_term(weighted.term, names)) for weighted in terms)


def _spread(spread: Spread, names: Names) -> Spread:
    return _replace(spread, topology=names.key(spread.topology), selector=_selector(spread.selector, names))


# -- gangs, budgets, quotas, reservations -----------------------------------------------------------------------------


def redact_gang(gang: Gang, names: Names) -> Gang:
    """Return the gang with its names replaced."""
    return _replace(
        gang,
        name=names.name(gang.name),
        namespace=names.namespace(gang.namespace),
        topology=names.key(gang.topology),
        draw_key=gang_key(gang),
    )


def redact_budget(budget: Budget, names: Names) -> Budget:
    """Return the budget with its names replaced."""
    return _replace(
        budget,
        name=names.name(budget.name),
        namespace=names.namespace(budget.namespace),
        selector=_selector(budget.selector, names),
        disrupted=tuple(map(names.name, budget.disrupted)),
    )


def redact_quota(quota: Quota, names: Names) -> Quota:
    """Return the quota with its names replaced."""
    return _replace(quota, tenant=names.name(quota.tenant))


def redact_reservation(reservation: Reservation, names: Names) -> Reservation:
    """Return the reservation with its names replaced."""
    return _replace(
        reservation,
        name=names.name(reservation.name),
        hosts=_terms(reservation.hosts, names),
        tenant=names.name(reservation.tenant),
        gang=names.path(reservation.gang),
        selector=_selector(reservation.selector, names),
    )
