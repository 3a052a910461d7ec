"""The plugins by name: built-in ones listed here, those of third parties handed in by a front.

No folder scans and no import side effects: what is in the tables below is what there is. A front that finds plugins
by the entry-point group ``hostler.plugins`` passes them to ``Registry(extra=...)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeAlias

from hostler.engine.framework import Factory
from hostler.engine.plugins.across_guests import EvenSpread, GuestAffinity, NearGuests, Ports, SpreadFilter
from hostler.engine.plugins.allocation import Balanced, CapacityRatio, LeastAllocated, MostAllocated
from hostler.engine.plugins.cordon import Cordon
from hostler.engine.plugins.gpu_sharing import DotProduct, Fgd, GpuBestFit, GpuClustering, GpuPacking
from hostler.engine.plugins.host_affinity import HostAffinity, PreferredHosts
from hostler.engine.plugins.host_name import HostName
from hostler.engine.plugins.images import ImageLocality
from hostler.engine.plugins.room import Devices, Resources
from hostler.engine.plugins.taints import PreferredTaints, Taints
from hostler.engine.plugins.unsupported import Unsupported
from hostler.engine.plugins.vm_load import FreeCapacity, Utilization
from hostler.errors import DuplicateNameError, UnknownNameError

__all__ = ["ENTRY_POINT_GROUP", "KERNEL_FILTERS", "Registry", "suggest"]

ENTRY_POINT_GROUP = "hostler.plugins"

# Filters inside the kernels: their classes only name them and say what cures their refusals.
KernelFilter: TypeAlias = type[Ports] | type[Resources] | type[Devices] | type[SpreadFilter] | type[GuestAffinity]
_INSIDE: tuple[KernelFilter, ...] = (Resources, Devices, Ports, SpreadFilter, GuestAffinity)
KERNEL_FILTERS: Mapping[str, KernelFilter] = {plugin.name: plugin for plugin in _INSIDE}

_COLUMN_FILTERS: Mapping[str, Factory] = {
    Cordon.name: Cordon,
    HostName.name: HostName,
    Taints.name: Taints,
    HostAffinity.name: HostAffinity,
    Unsupported.name: Unsupported,
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
    """Factories by name; unknown names are refused with the nearest known one."""

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
            raise UnknownNameError(f"there is no {kind} {name!r}", hint=suggest(name, [*names, *self.extra]))
        return factory

    @staticmethod
    def names() -> tuple[list[str], list[str]]:
        """Return the names of all built-in filters and scorers."""
        return [*_COLUMN_FILTERS, *KERNEL_FILTERS], list(_SCORERS)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known name, or with all of them."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(names))}"
