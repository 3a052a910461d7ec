"""What a shape asks about other guests, as a list of counters to look at: made here, evaluated in ``kernels_guests``.

The list has the shape's own constraints and, the other way round, the terms that guests of other shapes hold against it
or for it. It is made again when counters or held terms come or go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hostler.engine.counters import CounterKey, Counters, row_counter
from hostler.engine.domains import Eligibility
from hostler.engine.kernels_layout import ASK_AFFINITY, ASK_APART, ASK_EVEN, ASK_PORT, ASK_PREFER, ASK_SPREAD
from hostler.engine.plugins.across_guests import GuestAffinity, Ports, SpreadFilter
from hostler.engine.terms import Counted, Held, Matched, ResolvedTerm, WithPort, resolve, resolve_spread
from hostler.model import GuestSpec, HostPort, Reason, Spread

__all__ = ["Ask", "AskList", "list_asks", "watched"]

HOSTNAME = "kubernetes.io/hostname"
_HARD_WEIGHT = 1  # kube-scheduler's hardPodAffinityWeight


class Ask(NamedTuple):
    """One thing to look at on every host; ``key`` names the counter."""

    kind: int
    key: CounterKey
    params: tuple[int, ...] = ()
    reason: Reason | None = None
    reason_absent: Reason | None = None  # where the host lacks the topology label
    is_held: bool = False  # a term of other guests about this shape, not one of its own


class AskList(NamedTuple):
    """All that one shape asks under one policy; filters come first."""

    asks: tuple[Ask, ...]
    filters: int
    may_be_first: bool
    all_keys: bool


class AskOptions(NamedTuple):
    """What a policy looks at: its filters and scorers, and the spreading it applies to guests that name none."""

    ports: bool = True
    spread: bool = True
    affinity: bool = True
    prefers: bool = False
    evens: bool = False
    defaults: tuple[Spread, ...] = ()


def list_asks(spec: GuestSpec, options: AskOptions, counters: Counters) -> AskList:
    """Return what a shape asks about other guests."""
    hard, soft = _spreads(spec, options)
    filters: list[Ask] = []
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
    return AskList(
        asks=(*filters, *scores),
        filters=len(filters),
        may_be_first=bool(own) and all(term.matches(spec, counters.namespaces) for term in own),
        all_keys=bool(spec.spread),
    )


def watched(spec: GuestSpec, options: AskOptions) -> tuple[Counted, ...]:
    """Return whom a shape's own filters look at, each once."""
    found: list[Counted] = []
    if options.ports:
        found += (WithPort(port) for port in spec.ports)
    if options.spread:
        found += (ask.key.counted for ask in _hard_spread(spec, _spreads(spec, options)[0]))
    if options.affinity:
        found += (ask.key.counted for ask in _affinity(spec))
        found += (Matched((resolve(term, spec.namespace),)) for term in spec.anti_affinity)
    return tuple(dict.fromkeys(found))


def _spreads(spec: GuestSpec, options: AskOptions) -> tuple[Sequence[Spread], Sequence[Spread]]:
    """Return the hard and the soft constraints; a policy's defaults step in where the guest has neither."""
    spreads: Sequence[Spread] = spec.spread
    if not spreads and spec.siblings is not None:
        spreads = [
            Spread(d.topology, d.max_skew, spec.siblings, d.is_hard, d.min_domains, d.honor_affinity, d.honor_taints)
            for d in options.defaults
        ]
    return [s for s in spreads if s.is_hard], [s for s in spreads if not s.is_hard]


def _ports(spec: GuestSpec, counters: Counters) -> Iterator[Ask]:
    ports = counters.ports_in_use() if spec.ports else []
    for port in spec.ports:
        reason = Reason(Ports.name, "port_taken", port.text())
        for other in sorted({port, *ports}, key=HostPort.text):
            if port.conflicts(other):
                yield Ask(ASK_PORT, row_counter(WithPort(other)), (), reason)


def _eligibility(spec: GuestSpec, spread: Spread, keys: tuple[str, ...]) -> Eligibility:
    return Eligibility(
        keys=keys,
        selector=spec.host_selector if spread.honor_affinity else (),
        terms=spec.host_affinity if spread.honor_affinity else (),
        tolerations=spec.tolerations if spread.honor_taints else None,
    )


def _spread_key(spec: GuestSpec, spread: Spread, eligibility: Eligibility | None) -> CounterKey:
    return CounterKey(Matched((resolve_spread(spread, spec.namespace),), False), spread.topology, eligibility)


def _hard_spread(spec: GuestSpec, spreads: Sequence[Spread]) -> Iterator[Ask]:
    keys = tuple(sorted({spread.topology for spread in spreads}))
    for spread in spreads:
        counts_itself = spread.selector is not None and spread.selector.matches(spec.labels)
        yield Ask(
            ASK_SPREAD,
            _spread_key(spec, spread, _eligibility(spec, spread, keys)),
            (spread.max_skew, int(counts_itself), spread.min_domains),
            Reason(SpreadFilter.name, "skew_too_large", spread.text()),
            Reason(SpreadFilter.name, "no_topology_label", spread.topology),
        )


def _soft_spread(spec: GuestSpec, spreads: Sequence[Spread]) -> Iterator[Ask]:
    """Return the scoring asks; where every host is a domain, kube-scheduler counts on hosts of any kind."""
    keys = tuple(sorted({spread.topology for spread in spreads})) if spec.spread else ()
    for spread in spreads:
        is_host = spread.topology == HOSTNAME
        eligibility = None if is_host else _eligibility(spec, spread, keys)
        yield Ask(ASK_EVEN, _spread_key(spec, spread, eligibility), (spread.max_skew, int(is_host)))


def _affinity(spec: GuestSpec) -> Iterator[Ask]:
    terms = tuple(resolve(term, spec.namespace) for term in spec.affinity)
    for own, term in zip(spec.affinity, terms, strict=True):
        reason = Reason(GuestAffinity.name, "affinity_unmet", own.text())
        yield Ask(ASK_AFFINITY, CounterKey(Matched(terms), term.topology), (), reason, reason)


def _apart(spec: GuestSpec, counters: Counters) -> Iterator[Ask]:
    for own in spec.anti_affinity:
        term = resolve(own, spec.namespace)
        reason = Reason(GuestAffinity.name, "anti_affinity", own.text())
        yield Ask(ASK_APART, CounterKey(Matched((term,)), term.topology), (), reason)
    for held in counters.held_about(spec):
        if held.kind == "anti_affinity":
            reason = Reason(GuestAffinity.name, "existing_anti_affinity", _text(held.term))
            yield Ask(ASK_APART, CounterKey(held, held.term.topology), (), reason, is_held=True)


def _preferences(spec: GuestSpec, counters: Counters) -> Iterator[Ask]:
    for preferred in spec.preferred_affinity:
        term = resolve(preferred.term, spec.namespace)
        yield Ask(ASK_PREFER, CounterKey(Matched((term,)), term.topology), (preferred.weight,))
    for preferred in spec.preferred_anti_affinity:
        term = resolve(preferred.term, spec.namespace)
        yield Ask(ASK_PREFER, CounterKey(Matched((term,)), term.topology), (-preferred.weight,))
    for held in counters.held_about(spec):
        weight = _held_weight(held)
        if weight:
            yield Ask(ASK_PREFER, CounterKey(held, held.term.topology), (weight,))


def _held_weight(held: Held) -> int:
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
    who = term.selector.text() if term.selector is not None else "nobody"
    return f"{who} by {term.topology}"
