"""Groups of guests that counters count: those that selectors match, those that hold a term, those that use a port.

A counter is identified by its ``Counted`` and the kind of domain. ``multiplicity`` says how often one guest of a shape
counts. The labels of namespaces, which terms may select by, come from the mapping that is passed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from hostler.model import GuestSpec, GuestTerm, HostPort, Labels, Selector, Spread

__all__ = [
    "Counted",
    "MatchedGuests",
    "PortHolders",
    "ResolvedTerm",
    "TermHolders",
    "held_terms",
    "multiplicity",
    "resolve",
]

Namespaces: TypeAlias = Mapping[str, Labels]
TermKind: TypeAlias = Literal["affinity", "anti_affinity", "preferred", "preferred_not"]


class ResolvedTerm(NamedTuple):
    """A term of a guest with explicit namespaces; ``topology`` is the label that makes the domains."""

    topology: str
    selector: Selector | None
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None

    def matches(self, spec: GuestSpec, namespaces: Namespaces) -> bool:
        """Say whether the term selects a guest."""
        if self.selector is None or not self.selector.matches(spec.labels):
            return False
        if spec.namespace in self.namespaces:
            return True
        chosen = self.namespace_selector
        return chosen is not None and chosen.matches(namespaces.get(spec.namespace, ()))


class MatchedGuests(NamedTuple):
    """The guests that match all terms; leaving guests count only if ``with_leaving``."""

    terms: tuple[ResolvedTerm, ...]
    with_leaving: bool = True


class TermHolders(NamedTuple):
    """The guests that have a term themselves."""

    kind: TermKind
    term: ResolvedTerm
    weight: int = 0


class PortHolders(NamedTuple):
    """The guests that use a port of the host."""

    port: HostPort


Counted: TypeAlias = MatchedGuests | TermHolders | PortHolders


def resolve(term: GuestTerm, namespace: str) -> ResolvedTerm:
    """Return a guest's term with explicit namespaces."""
    own = not term.namespaces and term.namespace_selector is None
    return ResolvedTerm(
        term.topology, term.selector, (namespace,) if own else tuple(sorted(term.namespaces)), term.namespace_selector
    )


def resolve_spread(spread: Spread, namespace: str) -> ResolvedTerm:
    """Return a spread constraint as a term about the guest's own namespace; without a selector it matches no guest."""
    selector = spread.selector if spread.selector is not None and spread.selector.expressions else None
    return ResolvedTerm(spread.topology, selector, (namespace,), None)


def held_terms(spec: GuestSpec) -> Iterator[TermHolders]:
    """Return the affinity and anti-affinity terms of a shape, required and preferred."""
    for term in spec.anti_affinity:
        yield TermHolders("anti_affinity", resolve(term, spec.namespace))
    for term in spec.affinity:
        yield TermHolders("affinity", resolve(term, spec.namespace))
    for preferred in spec.preferred_affinity:
        yield TermHolders("preferred", resolve(preferred.term, spec.namespace), preferred.weight)
    for preferred in spec.preferred_anti_affinity:
        yield TermHolders("preferred_not", resolve(preferred.term, spec.namespace), preferred.weight)


def multiplicity(counted: Counted, spec: GuestSpec, namespaces: Namespaces) -> int:
    """Return how often a guest of a shape counts."""
    if isinstance(counted, MatchedGuests):
        if spec.is_leaving and not counted.with_leaving:
            return 0
        return int(all(term.matches(spec, namespaces) for term in counted.terms))
    if isinstance(counted, TermHolders):
        return sum(held == counted for held in held_terms(spec))
    return sum(port == counted.port for port in spec.ports)
