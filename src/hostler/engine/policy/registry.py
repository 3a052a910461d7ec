"""The plugins by name: built-in ones in the tables here, those of third parties passed in by a front.

There are no folder scans and no import side effects. A front finds plugins by the entry-point group ``hostler.plugins``
and passes them to ``Registry(extra=...)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from hostler.engine.framework import Factory
from hostler.engine.plugins.across_guests import EvenSpread, GuestAffinity, NearGuests, PortsFilter, SpreadFilter
from hostler.engine.plugins.allocation import Balanced, CapacityRatio, LeastAllocated, MostAllocated
from hostler.engine.plugins.cordon import Cordon
from hostler.engine.plugins.host_affinity import HostAffinity, PreferredHosts
from hostler.engine.plugins.host_name import HostName
from hostler.engine.plugins.images import ImageLocality
from hostler.engine.plugins.out_of_service import OutOfService
from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.plugins.shared_gpus import DotProduct, Fgd, GpuBestFit, GpuClustering, GpuPacking
from hostler.engine.plugins.taints import PreferredTaints, Taints
from hostler.engine.plugins.unsupported import Unsupported
from hostler.engine.plugins.vm_load import FreeCapacity, Utilization
from hostler.errors import DuplicateNameError, UnknownPluginError
from hostler.model.nearest_names import nearest_name
from hostler.model.reasons import NO_CURE, ReasonKind, Wake

__all__ = ["ENTRY_POINT_GROUP", "KERNEL_FILTERS", "REASONS", "Registry", "suggest"]

ENTRY_POINT_GROUP = "hostler.plugins"

# Filters inside the kernels: their classes only name them and say what cures their refusals.
KernelFilter: TypeAlias = type[PortsFilter] | type[Resources] | type[Devices] | type[SpreadFilter] | type[GuestAffinity]
_INSIDE: tuple[KernelFilter, ...] = (Resources, Devices, PortsFilter, SpreadFilter, GuestAffinity)
KERNEL_FILTERS: Mapping[str, KernelFilter] = {plugin.name: plugin for plugin in _INSIDE}

_COLUMN_FILTERS: Mapping[str, Factory] = {
    Cordon.name: Cordon,
    HostName.name: HostName,
    Taints.name: Taints,
    HostAffinity.name: HostAffinity,
    Unsupported.name: Unsupported,
    OutOfService.name: OutOfService,
}

# Reasons of the engine itself: they concern the guest, its gang or its tenant, and no host.
_OF_ENGINE: tuple[ReasonKind, ...] = (
    ReasonKind(
        plugin="policy", code="unknown_policy", subject="name", is_resolvable=False,
        cures=frozenset({Wake.POLICY_CHANGED, Wake.GUEST_CHANGED}),
        meaning="The guest names a policy that is not declared.",
    ),
    ReasonKind(
        plugin="guest", code="is_leaving", is_resolvable=False, cures=NO_CURE,
        meaning="The guest is being deleted, so it is not placed.",
    ),
    ReasonKind(
        plugin="quota", code="quota_exceeded", subject="amount", is_resolvable=False, cures=NO_CURE,
        meaning="The quota of its tenant has no room for the guest.",
    ),
    ReasonKind(
        plugin="ask", code="refused_by", subject="name", is_resolvable=False, cures=NO_CURE,
        meaning="A scorer or extender outside the engine rejected the host.",
    ),
    ReasonKind(
        plugin="gang", code="outside_the_domain", is_resolvable=False, cures=NO_CURE,
        meaning="The gang must stay together in another domain.",
    ),
    ReasonKind(
        plugin="gang", code="no_domain", subject="name", is_resolvable=False, cures=NO_CURE,
        meaning="No host has the label by which the gang must stay together.",
    ),
    ReasonKind(
        plugin="gang", code="gang_incomplete", subject="gang", is_resolvable=False, cures=NO_CURE,
        meaning="The guest itself fits, but too few members of its gang do.",
    ),
)  # fmt: skip
_MARK_FILTERS = (Cordon, HostName, Taints, HostAffinity, Unsupported, OutOfService)
# Every declared reason by plugin and code. A reason that is missing here counts as one that no eviction cures.
REASONS: Mapping[tuple[str, str], ReasonKind] = {
    (kind.plugin, kind.code): kind
    for kind in (*_OF_ENGINE, *(kind for plugin in (*_MARK_FILTERS, *_INSIDE) for kind in plugin.reasons))
}

_SCORERS: Mapping[str, Factory] = {
    LeastAllocated.name: LeastAllocated,
    MostAllocated.name: MostAllocated,
    Balanced.name: Balanced,
    CapacityRatio.name: CapacityRatio,
    PreferredHosts.name: PreferredHosts,
    PreferredTaints.name: PreferredTaints,
    Utilization.name: Utilization,
    FreeCapacity.name: FreeCapacity,
    ImageLocality.name: ImageLocality,
    NearGuests.name: NearGuests,
    EvenSpread.name: EvenSpread,
    Fgd.name: Fgd,
    GpuBestFit.name: GpuBestFit,
    DotProduct.name: DotProduct,
    GpuClustering.name: GpuClustering,
    GpuPacking.name: GpuPacking,
}


class Registry:
    """Plugin factories by name; an unknown name raises an error with the nearest known one."""

    def __init__(self, extra: Mapping[str, Factory] | None = None) -> None:
        self.extra = dict(extra or {})
        for name in self.extra:
            if name in _COLUMN_FILTERS or name in _SCORERS or name in KERNEL_FILTERS:
                raise DuplicateNameError(f"plugin {name!r} has the name of a built-in one", hint="rename the plugin")

    def filter_factory(self, name: str) -> Factory:
        """Return the factory of a column filter."""
        return self._find(name, _COLUMN_FILTERS, "filter", (*_COLUMN_FILTERS, *KERNEL_FILTERS))

    def scorer_factory(self, name: str) -> Factory:
        """Return the factory of a scorer."""
        return self._find(name, _SCORERS, "scorer", _SCORERS)

    def _find(self, name: str, built_in: Mapping[str, Factory], kind: str, names: Iterable[str]) -> Factory:
        factory = built_in.get(name) or self.extra.get(name)
        if factory is None:
            raise UnknownPluginError(f"there is no {kind} {name!r}", hint=suggest(name, [*names, *self.extra]))
        return factory

    @staticmethod
    def names() -> tuple[list[str], list[str]]:
        """Return the names of all built-in filters and scorers."""
        return [*_COLUMN_FILTERS, *KERNEL_FILTERS], list(_SCORERS)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known name, or with all names."""
    names = list(known)
    near = nearest_name(name, names)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(names))}"
