"""One policy with its plugins, built and ready to use."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from hostler.engine.framework import ColumnFilter, ColumnScorer, KernelScorer, Wake
from hostler.engine.plugins.across_guests import EvenSpread, GuestAffinity, NearGuests, PortsFilter, SpreadFilter
from hostler.engine.plugins.host_affinity import PreferredHosts
from hostler.engine.policy.peer_rules import PeerOptions
from hostler.engine.policy.registry import KERNEL_FILTERS
from hostler.model import GuestSpec, Policy, ScorerUse
from hostler.model.guests import has_soft_constraints
from hostler.model.policies import Normalizer

__all__ = ["BuiltScorer", "Profile"]


@dataclass(frozen=True)
class BuiltScorer:
    """A scorer of one policy, ready to use."""

    use: ScorerUse
    kernel: KernelScorer | None = None
    column: ColumnScorer | None = None

    @property
    def normalizer(self) -> Normalizer:
        """Return how raw scores are scaled."""
        return (self.kernel or self._column()).normalizer

    @property
    def is_float(self) -> bool:
        """Say whether raw scores are floats."""
        return self.kernel is not None and self.kernel.is_float

    @property
    def needs_room(self) -> bool:
        """Say whether raw scores must be stored: they are normalized, or computed outside the kernels."""
        return self.kernel is None or self.normalizer != "none"

    def applies(self, spec: GuestSpec) -> bool:
        """Say whether the scorer affects guests of a shape."""
        return (self.kernel or self._column()).applies(spec)

    def _column(self) -> ColumnScorer:
        assert self.column is not None
        return self.column


@dataclass
class Profile:
    """One policy with its plugins."""

    policy: Policy
    filters: list[ColumnFilter] = field(default_factory=list)
    scorers: list[BuiltScorer] = field(default_factory=list)
    preferences: list[BuiltScorer] = field(default_factory=list)  # of soft constraints that come before the scorers
    kernel_filters: set[str] = field(default_factory=set)
    limit_set: int = 0

    @cached_property
    def peer_options(self) -> PeerOptions:
        """Return which peer rules the policy applies."""
        kernels = [scorer.kernel for scorer in self.scorers]
        even = next((kernel for kernel in kernels if isinstance(kernel, EvenSpread)), None)
        return PeerOptions(
            ports=PortsFilter.name in self.kernel_filters,
            spread=SpreadFilter.name in self.kernel_filters,
            affinity=GuestAffinity.name in self.kernel_filters,
            prefers=any(isinstance(kernel, NearGuests) for kernel in kernels),
            evens=even is not None,
            defaults=even.defaults if even is not None else (),
        )

    def peer_options_of(self, spec: GuestSpec) -> PeerOptions:
        """Return which peer rules apply to a shape: soft constraints that come first count for guests that have any.

        A guest without any must be placed as if others had none either, so terms of others do not attract it.
        """
        if not self.prefers_first(spec):
            return self.peer_options
        first = {scorer.use.name for scorer in self.preferences}
        options = self.peer_options
        return options._replace(
            prefers=options.prefers or NearGuests.name in first, evens=options.evens or EvenSpread.name in first
        )

    def prefers_first(self, spec: GuestSpec) -> bool:
        """Say whether soft constraints of a shape come before the policy's own score."""
        if not self.preferences or not has_soft_constraints(spec):
            return False
        first = {scorer.use.name for scorer in self.preferences}
        return bool(
            (PreferredHosts.name in first and spec.preferred_hosts)
            or (NearGuests.name in first and (spec.preferred_affinity or spec.preferred_anti_affinity))
            or (EvenSpread.name in first and any(not one.is_hard for one in spec.spread))
        )

    @property
    def all_scorers(self) -> list[BuiltScorer]:
        """Return the policy's own scorers, and behind them those of soft constraints that come first."""
        return [*self.scorers, *self.preferences] if self.preferences else self.scorers

    @cached_property
    def is_float(self) -> bool:
        """Say whether totals are floats."""
        return any(s.is_float for s in self.scorers)

    @cached_property
    def is_static(self) -> bool:
        """Say whether everything outside the kernels depends on marks alone."""
        columns = (s.column for s in self.scorers if s.column is not None)
        return all(f.is_static for f in self.filters) and all(c.is_static for c in columns)

    @cached_property
    def draws(self) -> bool:
        """Say whether decisions need random numbers."""
        return "random" in self.policy.ties or self.policy.devices == "random"

    @cached_property
    def takes_turns(self) -> bool:
        """Say whether the policy remembers the last host."""
        return "after_last" in self.policy.ties

    @cached_property
    def idle_scores(self) -> dict[int, int]:
        """Return the scorers without an opinion that give all hosts the same score, with what that adds."""
        scores = {x: getattr(scorer.column, "idle_score", None) for x, scorer in enumerate(self.scorers)}
        return {x: self.scorers[x].use.weight * score for x, score in scores.items() if score is not None}

    def cures(self, plugin: str) -> frozenset[Wake]:
        """Return the events that can cure a rejection by one of the policy's filters."""
        if plugin in KERNEL_FILTERS:
            return KERNEL_FILTERS[plugin].cures
        for candidate in self.filters:
            if candidate.name == plugin:
                return candidate.cures
        return frozenset(Wake)
