"""Who is counted: the guests that selectors match, those that hold a term, those that have a port.

A counter is known by its ``Counted`` and the kind of domain it counts in. ``multiplicity`` says how often one guest of
a shape counts; namespaces that a term selects by label are looked up in the table that is passed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from hostler.model import GuestSpec, GuestTerm, HostPort, Labels, Selector, Spread

__all__ = ["Counted", "Held", "Matched", "ResolvedTerm", "WithPort", "held_terms", "multiplicity", "resolve"]

Namespaces: TypeAlias = Mapping[str, Labels]
Hold: TypeAlias = Literal["affinity", "anti_affinity", "preferred", "preferred_not"]


class ResolvedTerm(NamedTuple):
    """A term of some guest with its namespaces spelled out; ``topology`` is the label that makes domains."""

    topology: str
    selector: Selector | None
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None

    def matches(self, spec: GuestSpec, namespaces: Namespaces) -> bool:
        """Say whether a guest is meant."""
        if self.selector is None or not self.selector.matches(spec.labels):
            return False
        if spec.namespace in self.namespaces:
            return True
        chosen = self.namespace_selector
        return chosen is not None and chosen.matches(namespaces.get(spec.namespace, ()))


class Matched(NamedTuple):
    """The guests that all terms match; those that are leaving only where that matters."""

    terms: tuple[ResolvedTerm, ...]
    with_leaving: bool = True


class Held(NamedTuple):
    """The guests that hold a term themselves."""

    kind: Hold
    term: ResolvedTerm
    weight: int = 0


class WithPort(NamedTuple):
    """The guests that have a port of the host."""

    port: HostPort


Counted: TypeAlias = Matched | Held | WithPort


def resolve(term: GuestTerm, namespace: str) -> ResolvedTerm:
    """Spell out the namespaces of a guest's term."""
    own = not term.namespaces and term.namespace_selector is None
    return ResolvedTerm(
        term.topology, term.selector, (namespace,) if own else tuple(sorted(term.namespaces)), term.namespace_selector
    )


def resolve_spread(spread: Spread, namespace: str) -> ResolvedTerm:
    """Return a spread constraint as a term: only the guest's own namespace counts, and a selector of nothing nobody."""
    selector = spread.selector if spread.selector is not None and spread.selector.expressions else None
    return ResolvedTerm(spread.topology, selector, (namespace,), None)


def held_terms(spec: GuestSpec) -> Iterator[Held]:
    """Return what guests of a shape hold against, or for, others."""
    for term in spec.anti_affinity:
        yield Held("anti_affinity", resolve(term, spec.namespace))
    for term in spec.affinity:
        yield Held("affinity", resolve(term, spec.namespace))
    for preferred in spec.preferred_affinity:
        yield Held("preferred", resolve(preferred.term, spec.namespace), preferred.weight)
    for preferred in spec.preferred_anti_affinity:
        yield Held("preferred_not", resolve(preferred.term, spec.namespace), preferred.weight)


def multiplicity(counted: Counted, spec: GuestSpec, namespaces: Namespaces) -> int:
    """Return how often a guest of a shape counts."""
    if isinstance(counted, Matched):
        if spec.is_leaving and not counted.with_leaving:
            return 0
        return int(all(term.matches(spec, namespaces) for term in counted.terms))
    if isinstance(counted, Held):
        return sum(held == counted for held in held_terms(spec))
    return sum(port == counted.port for port in spec.ports)
