"""All policies of an engine: built through the registry, checked, and handed to the kernels as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
import numpy as np

from hostler.engine.cluster.cluster import Cluster, LimitSet
from hostler.engine.framework import ColumnFilter, ColumnScorer, Factory, Filter, KernelScorer, Scorer
from hostler.engine.kernels.layout import DEVICE_RULES, TIES, PolicyColumns
from hostler.engine.policy.adapters import ForeignFilter, ForeignScorer, failure_of
from hostler.engine.policy.policies import MAX_MIX
from hostler.engine.policy.policy_columns import encode_policies, resources_of
from hostler.engine.policy.profile import BuiltScorer, Profile
from hostler.engine.policy.registry import KERNEL_FILTERS, Registry, suggest
from hostler.engine.view import ClusterView
from hostler.errors import DuplicateNameError, HostlerError, InputError, UnknownNameError
from hostler.model import MAX_AMOUNT, MixEntry, Policy, ScorerUse

__all__ = ["NO_POLICY", "PREFERENCES", "Profiles"]

NO_POLICY = -1

# What soft constraints that come first are measured by. Each gives 0 to 100.
PREFERENCES = (ScorerUse("preferred_hosts"), ScorerUse("near_guests"), ScorerUse("even_spread"))

_MAX_WEIGHT = 1_000_000
_MAX_POLICIES = 256
_MAX_PLUGINS = 64  # filters, and scorers, of one policy
_MAX_ARGUMENTS = 65_536  # characters of one plugin's
_MAX_RESOURCES = 56  # that the scorers of all policies look at: hosts and reservations have the rest of 1,024
_MAX_MODELS = 4096  # of one entry of a mix, as of one guest


class Profiles:
    """All policies of one engine; the first is the default."""

    def __init__(self, policies: Sequence[Policy], cluster: Cluster, registry: Registry) -> None:
        if not policies:
            raise InputError("an engine needs at least one policy")
        if len(policies) > _MAX_POLICIES:
            raise InputError(f"there are {len(policies)} policies; at most {_MAX_POLICIES} are supported")
        self.policies = tuple(policies)
        self.registry = registry
        self._number: dict[str, int] = {"": 0}
        for number, policy in enumerate(policies):
            if policy.name in self._number:
                raise DuplicateNameError(f"two policies are called {policy.name!r}")
            self._number[policy.name] = number
        self._cluster = cluster
        limit_sets: list[LimitSet] = [((), (), False)]
        self.profiles = [self._build(policy, limit_sets) for policy in policies]
        self.limit_sets = limit_sets
        if (count := len(resources_of(self.profiles))) > _MAX_RESOURCES:
            raise InputError(f"policies score by {count} resources; at most {_MAX_RESOURCES} are supported")
        self.width = max(1, *(len(p.all_scorers) for p in self.profiles), 1)  # scorers of the widest policy
        self.normal_width = max(sum(s.normalizer != "none" for s in p.all_scorers) for p in self.profiles)
        self._columns: PolicyColumns | None = None
        self._sizes: tuple[int, ...] = ()
        self.last_key = np.zeros(len(policies), dtype=np.int64)

    def number(self, name: str) -> int:
        """Return a policy's number."""
        number = self._number.get(name)
        if number is None:
            raise UnknownNameError(f"there is no policy {name!r}", hint=suggest(name, filter(None, self._number)))
        return number

    def find_number(self, name: str) -> int:
        """Return a policy's number, or NO_POLICY if it was removed while guests still name it."""
        return self._number.get(name, NO_POLICY)

    def find(self, name: str) -> Profile | None:
        """Return a policy, or None."""
        number = self._number.get(name)
        return None if number is None else self.profiles[number]

    def forget_columns(self) -> None:
        """Rebuild the columns next time: names were released."""
        self._columns = None

    def columns(self) -> PolicyColumns:
        """Return the arrays for a kernel; they are rebuilt if names were added since."""
        if self._columns is None or self._sizes != self._name_counts():
            self._columns = encode_policies(self.profiles, self._cluster, self.last_key)
            self._sizes = self._name_counts()
        return self._columns

    def _name_counts(self) -> tuple[int, ...]:
        tables = self._cluster.tables
        return (*tables.version, self._cluster.resource_capacity)

    def _build(self, policy: Policy, limit_sets: list[LimitSet]) -> Profile:
        if max(len(policy.filters), len(policy.scorers)) > _MAX_PLUGINS:
            raise InputError(f"policy {policy.name!r} has more than {_MAX_PLUGINS} filters or scorers")
        limits = (policy.overcommit, policy.reserve, policy.one_guest_per_host)
        if limits not in limit_sets:
            limit_sets.append(limits)
        profile = Profile(policy, limit_set=limit_sets.index(limits))
        view = ClusterView(self._cluster, profile.limit_set)
        for use in policy.filters:
            if use.name in KERNEL_FILTERS:
                profile.kernel_filters.add(use.name)  # room is always checked, whether named or not
                continue
            built = self._make(self.registry.filter_factory(use.name), use.name, view, use.args)
            if use.name in self.registry.extra:
                if not isinstance(built, Filter):
                    raise InputError(f"plugin {use.name!r} is not a filter")
                built = ForeignFilter(built, view)
            profile.filters.append(cast(ColumnFilter, built))
        for scorer in policy.scorers:
            profile.scorers.append(self._build_scorer(scorer, view))
        if policy.soft_constraints == "first":
            listed = {scorer.name for scorer in policy.scorers}
            profile.preferences = [self._build_scorer(one, view) for one in PREFERENCES if one.name not in listed]
        self._check(policy, profile)
        return profile

    def _make(self, factory: Factory, name: str, view: ClusterView, args: str) -> object:
        try:
            return factory(view, _arguments(args))
        except (HostlerError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if name not in self.registry.extra:
                raise
            raise failure_of(name, error) from error

    def _build_scorer(self, use: ScorerUse, view: ClusterView) -> BuiltScorer:
        if not 0 < abs(use.weight) <= _MAX_WEIGHT:
            raise InputError(f"the weight of scorer {use.name!r} must be a whole number up to {_MAX_WEIGHT}, not 0")
        built = self._make(self.registry.scorer_factory(use.name), use.name, view, use.args)
        if use.name in self.registry.extra:
            if not isinstance(built, Scorer):
                raise InputError(f"plugin {use.name!r} is not a scorer")
            return BuiltScorer(use, column=ForeignScorer(built))
        if hasattr(built, "operation"):
            return BuiltScorer(use, kernel=cast(KernelScorer, built))
        return BuiltScorer(use, column=cast(ColumnScorer, built))

    @staticmethod
    def _check(policy: Policy, profile: Profile) -> None:
        rules = policy.preemption
        if rules is not None:
            for name in ("max_evictions", "window_ns", "wait_ns", "max_repeats", "max_cascade"):
                if not 0 <= getattr(rules, name) < 2**62:
                    raise InputError(f"preemption.{name} of policy {policy.name!r} is not between 0 and 2^62")
        if any(s.kernel is not None and s.kernel.wants_mix for s in profile.scorers) and not policy.mix:
            raise InputError(
                f"policy {policy.name!r} needs a typical mix of guests",
                hint="give policy.mix, for example typical_mix(specs of the guests you expect)",
            )
        if policy.devices not in DEVICE_RULES or not set(policy.ties) <= set(TIES):
            raise InputError(f"policy {policy.name!r} has an unknown tie key or device rule")
        if len(policy.mix) > MAX_MIX or not all(map(_is_sane, policy.mix)):
            raise InputError(f"policy {policy.name!r} has a typical mix that is too long or has impossible entries")
        if len(policy.ties) > 4 or len(set(policy.ties)) != len(policy.ties):
            raise InputError(f"policy {policy.name!r} has more than four tie keys, or one twice")
        if profile.is_float and any(s.normalizer != "none" for s in profile.scorers):
            raise InputError(f"policy {policy.name!r} mixes a float score with normalised ones")


def _is_sane(entry: MixEntry) -> bool:
    amounts = (entry.cpu_millis, entry.device_millis, entry.device_count)
    is_countable = all(0 <= amount <= MAX_AMOUNT for amount in amounts) and len(entry.models) <= _MAX_MODELS
    return is_countable and 0.0 <= entry.share <= 1.0


def _arguments(text: str) -> Mapping[str, object]:
    """Decode a plugin's arguments."""
    if not text:
        return {}
    if len(text) > _MAX_ARGUMENTS:
        raise InputError(f"plugin arguments have {len(text)} characters; at most {_MAX_ARGUMENTS} are supported")
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"plugin arguments {text[:80]!r} are not a JSON object") from error
