"""Peer rules: what a shape demands of other guests (its peers), as a list of counters to read on every host.

The list has the shape's own constraints and, in the other direction, the terms of placed guests that are about this
shape. ``cache.peer_table`` turns it into columns, and ``kernels.guests`` evaluates it. It is rebuilt when counters or
terms come or go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hostler.engine.cluster.counters import CounterKey, Counters, row_counter
from hostler.engine.cluster.domains import Eligibility
from hostler.engine.cluster.terms import (
    Counted,
    MatchedGuests,
    PortHolders,
    ResolvedTerm,
    TermHolders,
    resolve,
    resolve_spread,
)
from hostler.engine.kernels.layout import PEER_AFFINITY, PEER_APART, PEER_EVEN, PEER_PORT, PEER_PREFER, PEER_SPREAD
from hostler.engine.plugins.across_guests import GuestAffinity, PortsFilter, SpreadFilter
from hostler.model import GuestSpec, HostPort, Reason, Spread
from hostler.model.guests import text_of
from hostler.model.hosts import HOSTNAME

__all__ = ["PeerRule", "PeerRules", "list_peer_rules", "watched_guests"]

_HARD_WEIGHT = 1  # kube-scheduler's hardPodAffinityWeight


class PeerRule(NamedTuple):
    """One counter to read on every host, named by ``key``; ``params`` depend on the kind (see ``kernels.layout``)."""

    kind: int
    key: CounterKey
    params: tuple[int, ...] = ()
    reason: Reason | None = None
    reason_absent: Reason | None = None  # where the host lacks the topology label
    is_held: bool = False  # a term of other guests about this shape, not one of its own


class PeerRules(NamedTuple):
    """All rules of one shape under one policy; filters come first."""

    rules: tuple[PeerRule, ...]
    filters: int
    may_be_first: bool
    all_keys: bool


class PeerOptions(NamedTuple):
    """The filters and scorers of a policy that look at peers, and the spreading of guests that declare none."""

    ports: bool = True
    spread: bool = True
    affinity: bool = True
    prefers: bool = False
    evens: bool = False
    defaults: tuple[Spread, ...] = ()


def list_peer_rules(spec: GuestSpec, options: PeerOptions, counters: Counters) -> PeerRules:
    """Return the peer rules of a shape."""
    hard, soft = _spreads(spec, options)
    filters: list[PeerRule] = []
    if options.ports:
        filters += _ports(spec, counters)
    if options.spread:
        filters += _hard_spread(spec, hard)
    if options.affinity:
        filters += _affinity(spec)
        filters += _apart(spec, counters)
    scores = list(_preferences(spec, counters)) if options.prefers else []
    if options.evens:
        scores += _soft_spread(spec, soft)
    own = [resolve(term, spec.namespace) for term in spec.affinity]
    return PeerRules(
        rules=(*filters, *scores),
        filters=len(filters),
        may_be_first=bool(own) and all(term.matches(spec, counters.namespaces) for term in own),
        all_keys=bool(spec.spread),
    )


def watched_guests(spec: GuestSpec, options: PeerOptions) -> tuple[Counted, ...]:
    """Return the groups of guests that a shape's own filters depend on, each once."""
    found: list[Counted] = []
    if options.ports:
        found += (PortHolders(port) for port in spec.ports)
    if options.spread:
        found += (rule.key.counted for rule in _hard_spread(spec, _spreads(spec, options)[0]))
    if options.affinity:
        found += (rule.key.counted for rule in _affinity(spec))
        found += (MatchedGuests((resolve(term, spec.namespace),)) for term in spec.anti_affinity)
    return tuple(dict.fromkeys(found))


def _spreads(spec: GuestSpec, options: PeerOptions) -> tuple[Sequence[Spread], Sequence[Spread]]:
    """Return the hard and the soft constraints; a policy's defaults apply if the guest has neither."""
    spreads: Sequence[Spread] = spec.spread
    if not spreads and spec.siblings is not None:
        spreads = [
            Spread(d.topology, d.max_skew, spec.siblings, d.is_hard, d.min_domains, d.honor_affinity, d.honor_taints)
            for d in options.defaults
        ]
    return [s for s in spreads if s.is_hard], [s for s in spreads if not s.is_hard]


def _ports(spec: GuestSpec, counters: Counters) -> Iterator[PeerRule]:
    ports = counters.ports_in_use() if spec.ports else []
    for port in spec.ports:
        reason = Reason(PortsFilter.name, "port_taken", port.text())
        for other in sorted({port, *ports}, key=HostPort.text):
            if port.conflicts(other):
                yield PeerRule(PEER_PORT, row_counter(PortHolders(other)), (), reason)


def _eligibility(spec: GuestSpec, spread: Spread, keys: tuple[str, ...]) -> Eligibility:
    return Eligibility(
        keys=keys,
        selector=spec.host_selector if spread.honor_affinity else (),
        terms=spec.host_affinity if spread.honor_affinity else (),
        tolerations=spec.tolerations if spread.honor_taints else None,
    )


def _spread_key(spec: GuestSpec, spread: Spread, eligibility: Eligibility | None) -> CounterKey:
    return CounterKey(MatchedGuests((resolve_spread(spread, spec.namespace),), False), spread.topology, eligibility)


def _hard_spread(spec: GuestSpec, spreads: Sequence[Spread]) -> Iterator[PeerRule]:
    keys = tuple(sorted({spread.topology for spread in spreads}))
    for spread in spreads:
        counts_itself = spread.selector is not None and spread.selector.matches(spec.labels)
        yield PeerRule(
            PEER_SPREAD,
            _spread_key(spec, spread, _eligibility(spec, spread, keys)),
            (spread.max_skew, int(counts_itself), spread.min_domains),
            Reason(SpreadFilter.name, "skew_too_large", spread.text()),
            Reason(SpreadFilter.name, "no_topology_label", spread.topology),
        )


def _soft_spread(spec: GuestSpec, spreads: Sequence[Spread]) -> Iterator[PeerRule]:
    """Return the scoring rules; where every host is a domain, kube-scheduler counts on hosts of any kind."""
    keys = tuple(sorted({spread.topology for spread in spreads})) if spec.spread else ()
    for spread in spreads:
        is_host = spread.topology == HOSTNAME
        eligibility = None if is_host else _eligibility(spec, spread, keys)
        yield PeerRule(PEER_EVEN, _spread_key(spec, spread, eligibility), (spread.max_skew, int(is_host)))


def _affinity(spec: GuestSpec) -> Iterator[PeerRule]:
    terms = tuple(resolve(term, spec.namespace) for term in spec.affinity)
    for own, term in zip(spec.affinity, terms, strict=True):
        reason = Reason(GuestAffinity.name, "affinity_unmet", own.text())
        yield PeerRule(PEER_AFFINITY, CounterKey(MatchedGuests(terms), term.topology), (), reason, reason)


def _apart(spec: GuestSpec, counters: Counters) -> Iterator[PeerRule]:
    for own in spec.anti_affinity:
        term = resolve(own, spec.namespace)
        reason = Reason(GuestAffinity.name, "anti_affinity", own.text())
        yield PeerRule(PEER_APART, CounterKey(MatchedGuests((term,)), term.topology), (), reason)
    for held in counters.terms_held_about(spec):
        if held.kind == "anti_affinity":
            reason = Reason(GuestAffinity.name, "existing_anti_affinity", _text(held.term))
            yield PeerRule(PEER_APART, CounterKey(held, held.term.topology), (), reason, is_held=True)


def _preferences(spec: GuestSpec, counters: Counters) -> Iterator[PeerRule]:
    for preferred in spec.preferred_affinity:
        term = resolve(preferred.term, spec.namespace)
        yield PeerRule(PEER_PREFER, CounterKey(MatchedGuests((term,)), term.topology), (preferred.weight,))
    for preferred in spec.preferred_anti_affinity:
        term = resolve(preferred.term, spec.namespace)
        yield PeerRule(PEER_PREFER, CounterKey(MatchedGuests((term,)), term.topology), (-preferred.weight,))
    for held in counters.terms_held_about(spec):
        weight = _held_weight(held)
        if weight:
            yield PeerRule(PEER_PREFER, CounterKey(held, held.term.topology), (weight,))


def _held_weight(held: TermHolders) -> int:
    match held.kind:
        case "affinity":
            return _HARD_WEIGHT
        case "preferred":
            return held.weight
        case "preferred_not":
            return -held.weight
        case _:
            return 0


def _text(term: ResolvedTerm) -> str:
    return f"{text_of(term.selector)} by {term.topology}"
