"""Policies compiled: plugins built through the registry, weights and arguments encoded as columns for the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np

from hostler.engine.adapters import ForeignFilter, ForeignScorer
from hostler.engine.cluster import Cluster, LimitSet
from hostler.engine.framework import ColumnFilter, ColumnScorer, Filter, KernelScorer, Scorer, Wake
from hostler.engine.kernels_layout import (
    DEVICE_RULES,
    NORMALIZERS,
    OP_OUTER,
    PARAMS,
    TIES,
    PolicyColumns,
)
from hostler.engine.registry import KERNEL_FILTERS, Registry, suggest
from hostler.engine.view import ClusterView
from hostler.errors import DuplicateNameError, InputError, UnknownNameError
from hostler.model import GuestSpec, MixEntry, Policy, ScorerUse

__all__ = ["BuiltScorer", "Profile", "Profiles"]

_MOVING_TIES = frozenset({"random", "after_last"})
_MAX_WEIGHT = 1_000_000


@dataclass(frozen=True)
class BuiltScorer:
    """A scorer of one policy, ready to use."""

    use: ScorerUse
    plugin: KernelScorer | ColumnScorer
    is_kernel: bool

    @property
    def operation(self) -> int:
        """Return the kernel's operation number."""
        return self.plugin.operation if self.is_kernel else OP_OUTER  # type: ignore[union-attr]


@dataclass
class Profile:
    """One policy with its plugins."""

    policy: Policy
    filters: list[ColumnFilter] = field(default_factory=list)
    kernel_checks: tuple[bool, bool] = (False, False)
    scorers: list[BuiltScorer] = field(default_factory=list)
    limit_set: int = 0

    @cached_property
    def is_float(self) -> bool:
        """Say whether totals are floats."""
        return any(s.is_kernel and s.plugin.is_float for s in self.scorers)  # type: ignore[union-attr]

    @cached_property
    def is_static(self) -> bool:
        """Say whether everything outside the kernels looks at marks alone."""
        plugins = [*self.filters, *(s.plugin for s in self.scorers if not s.is_kernel)]
        return all(plugin.is_static for plugin in plugins)  # type: ignore[union-attr]

    @cached_property
    def draws(self) -> bool:
        """Say whether decisions need random numbers."""
        return "random" in self.policy.ties or self.policy.devices == "random"

    @cached_property
    def takes_turns(self) -> bool:
        """Say whether the policy remembers the last host."""
        return "after_last" in self.policy.ties

    def cures(self, plugin: str) -> frozenset[Wake]:
        """Return the events that can cure a refusal by one of the policy's filters."""
        if plugin in KERNEL_FILTERS:
            return KERNEL_FILTERS[plugin].cures
        for candidate in self.filters:
            if candidate.name == plugin:
                return candidate.cures
        return frozenset(Wake)

    def active(self, spec: GuestSpec) -> list[bool]:
        """Say which scorers have something to say about a shape."""
        return [s.plugin.applies(spec) for s in self.scorers]


class Profiles:
    """All policies of one engine; the first is the default."""

    def __init__(self, policies: Sequence[Policy], cluster: Cluster, registry: Registry) -> None:
        if not policies:
            raise InputError("an engine needs at least one policy")
        self.policies = tuple(policies)
        self.registry = registry
        self._number: dict[str, int] = {"": 0}
        for number, policy in enumerate(policies):
            if policy.name in self._number:
                raise DuplicateNameError(f"two policies are called {policy.name!r}")
            self._number[policy.name] = number
        self._cluster = cluster
        limit_sets: list[LimitSet] = [((), ())]
        self.profiles = [self._build(policy, limit_sets) for policy in policies]
        self.limit_sets = limit_sets
        self._columns: PolicyColumns | None = None
        self._sizes = (-1, -1, -1)
        self.last_key = np.zeros(len(policies), dtype=np.int64)

    def number(self, name: str) -> int:
        """Return a policy's number."""
        number = self._number.get(name)
        if number is None:
            raise UnknownNameError(f"there is no policy {name!r}", hint=suggest(name, filter(None, self._number)))
        return number

    @property
    def normal_width(self) -> int:
        """Return how many normalised scorers the widest policy has."""
        return max(sum(s.plugin.normalizer != "none" for s in p.scorers) for p in self.profiles)

    @property
    def width(self) -> int:
        """Return how many scorers the widest policy has."""
        return max(1, *(len(p.scorers) for p in self.profiles), 1)

    def columns(self) -> PolicyColumns:
        """Return the arrays for a kernel; they are made anew when names were interned since."""
        tables = self._cluster.tables
        sizes = (self._cluster.resource_capacity, len(tables.kinds), len(tables.models))
        if self._columns is None or sizes != self._sizes:
            self._columns = self._encode()
            self._sizes = (self._cluster.resource_capacity, len(tables.kinds), len(tables.models))
        return self._columns

    def _build(self, policy: Policy, limit_sets: list[LimitSet]) -> Profile:
        limits = (policy.overcommit, policy.reserve)
        if limits not in limit_sets:
            limit_sets.append(limits)
        profile = Profile(policy, limit_set=limit_sets.index(limits))
        view = ClusterView(self._cluster, profile.limit_set)
        checks = [False, False]
        for use in policy.filters:
            if use.name in KERNEL_FILTERS:
                checks[KERNEL_FILTERS[use.name].check] = True
                continue
            built = self.registry.filter_factory(use.name)(view, _arguments(use.args))
            if use.name in self.registry.extra:
                if not isinstance(built, Filter):
                    raise InputError(f"plugin {use.name!r} is not a filter")
                built = ForeignFilter(built, view)
            profile.filters.append(built)  # type: ignore[arg-type]
        profile.kernel_checks = (checks[0], checks[1])
        for scorer in policy.scorers:
            profile.scorers.append(self._build_scorer(scorer, view))
        self._check(policy, profile)
        return profile

    def _build_scorer(self, use: ScorerUse, view: ClusterView) -> BuiltScorer:
        if not isinstance(use.weight, int) or not 0 < abs(use.weight) <= _MAX_WEIGHT:
            raise InputError(f"the weight of scorer {use.name!r} must be a whole number up to {_MAX_WEIGHT}, not 0")
        built = self.registry.scorer_factory(use.name)(view, _arguments(use.args))
        if use.name in self.registry.extra:
            if not isinstance(built, Scorer):
                raise InputError(f"plugin {use.name!r} is not a scorer")
            return BuiltScorer(use, ForeignScorer(built), is_kernel=False)
        return BuiltScorer(use, built, is_kernel=hasattr(built, "operation"))  # type: ignore[arg-type]

    @staticmethod
    def _check(policy: Policy, profile: Profile) -> None:
        if any(s.is_kernel and s.plugin.wants_mix for s in profile.scorers) and not policy.mix:  # type: ignore[union-attr]
            raise InputError(
                f"policy {policy.name!r} needs a typical mix of guests",
                hint="give policy.mix, for example typical_mix(specs of the guests you expect)",
            )
        if len(policy.ties) > 4 or len(set(policy.ties)) != len(policy.ties):
            raise InputError(f"policy {policy.name!r} has more than four tie keys, or one twice")
        if profile.is_float and any(s.plugin.normalizer != "none" for s in profile.scorers):
            raise InputError(f"policy {policy.name!r} mixes a float score with normalised ones")

    def _encode(self) -> PolicyColumns:
        count, width = len(self.profiles), self.width
        tables = self._cluster.tables
        op = np.zeros((count, width), dtype=np.int32)
        weight = np.zeros((count, width), dtype=np.int64)
        normalizer = np.zeros((count, width), dtype=np.int32)
        normal_slot = np.full((count, width), -1, dtype=np.int32)
        params = np.zeros((count, width, PARAMS), dtype=np.int64)
        ties = np.zeros((count, 4), dtype=np.int32)
        for p, profile in enumerate(self.profiles):
            slot = 0
            for x, scorer in enumerate(profile.scorers):
                op[p, x] = scorer.operation
                weight[p, x] = scorer.use.weight
                normalizer[p, x] = NORMALIZERS[scorer.plugin.normalizer]
                if scorer.plugin.normalizer != "none":
                    normal_slot[p, x] = slot
                    slot += 1
                if scorer.is_kernel:
                    encoded = scorer.plugin.parameters(tables.resources)  # type: ignore[union-attr]
                    params[p, x, : len(encoded)] = encoded
            for k, tie in enumerate(profile.policy.ties):
                ties[p, k] = TIES[tie]
        self._cluster.fit_layout()
        codes = [tables.insufficient(r) for r in range(len(tables.resources))]
        resource_code = np.zeros(self._cluster.resource_capacity, dtype=np.int16)
        resource_code[: len(codes)] = codes
        device_code = np.array([tables.device_codes(k) for k in range(len(tables.kinds))], dtype=np.int16)
        return PolicyColumns(
            np.array([p.limit_set for p in self.profiles], dtype=np.int32),
            np.array([p.kernel_checks for p in self.profiles], dtype=np.int8),
            np.array([len(p.scorers) for p in self.profiles], dtype=np.int32),
            op, weight, normalizer, normal_slot,
            np.array([p.is_float for p in self.profiles], dtype=np.int8),
            params, ties,
            np.array([bool(_MOVING_TIES & set(p.policy.ties)) for p in self.profiles], dtype=np.int8),
            np.array([DEVICE_RULES[p.policy.devices] for p in self.profiles], dtype=np.int32),
            self.last_key,
            np.array([tables.resources.number("cpu")], dtype=np.int64),
            np.array([tables.kinds.number("gpu")], dtype=np.int16),
            resource_code, device_code,
            *self._encode_mixes(),
        )  # fmt: skip

    def _encode_mixes(self) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.generic]], ...]:
        models = self._cluster.tables.models
        entries: list[MixEntry] = [entry for p in self.profiles for entry in p.policy.mix]
        for entry in entries:
            for model in entry.models:
                models.number(model)
        allowed = np.zeros((max(len(entries), 1), len(models)), dtype=np.int8)
        starts, ends, level_starts, level_ends = [], [], [], []
        levels: list[int] = []
        level_of: list[int] = []
        at = 0
        for profile in self.profiles:
            mix = profile.policy.mix
            own_levels = sorted({entry.device_millis for entry in mix if entry.device_millis})
            starts.append(at)
            ends.append(at + len(mix))
            level_starts.append(len(levels))
            levels.extend(own_levels)
            level_ends.append(len(levels))
            for entry in mix:
                level_of.append(own_levels.index(entry.device_millis) if entry.device_millis else 0)
                wanted = [models.number(m) for m in entry.models]
                allowed[at, wanted if wanted else slice(None)] = 1
                at += 1
        int64, int32 = np.int64, np.int32
        return (
            np.array(starts, dtype=int32),
            np.array(ends, dtype=int32),
            np.array([e.cpu_millis for e in entries] or [0], dtype=int64),
            np.array([e.device_millis for e in entries] or [0], dtype=int64),
            np.array([e.device_count for e in entries] or [0], dtype=int64),
            np.array([e.share for e in entries] or [0.0], dtype=np.float64),
            np.array(level_of or [0], dtype=int32),
            allowed,
            np.array(level_starts, dtype=int32),
            np.array(level_ends, dtype=int32),
            np.array(levels or [0], dtype=int64),
        )


def _arguments(text: str) -> Mapping[str, object]:
    """Decode a plugin's arguments."""
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise InputError(f"plugin arguments {text!r} are not a JSON object") from error
