"""The heat map: one cell per host, colored by how much of a resource is promised. Pure.

The number stands in every cell, so color is never the only carrier; colors are one hue from light to dark, which
those who cannot tell hues apart read as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.control.schemas import Host
from hostler.control.schemas.texts import AWAY_STATES, host_conditions
from hostler.model.vocabulary import plural
from hostler.web.texts import bytes_text, cpu_text, percent_used

__all__ = [
    "RESOURCES",
    "HostLoad",
    "HostUsage",
    "MapCell",
    "color_step",
    "fleet_usage",
    "load_of",
    "map_cells",
    "map_density",
    "shown_state",
]  # fmt: skip

RESOURCES = ("cpu", "memory", "disk")
_NAMES = {"cpu": "CPU", "memory": "memory", "disk": "disk"}
_MIDDLE, _DENSE = 80, 240  # from so many hosts on cells are smaller


class HostUsage(msgspec.Struct, frozen=True):
    """How much of one resource is allocated, in numbers and as text."""

    name: str
    title: str
    used: int
    total: int
    used_text: str
    total_text: str
    percent: int | None

    @property
    def text(self) -> str:
        """Say it in one phrase."""
        of = f"{self.used_text} of {self.total_text}"
        return f"{of} ({self.percent} %)" if self.percent is not None else of


class HostLoad(msgspec.Struct, frozen=True):
    """A host with its allocations and limits."""

    id: str
    name: str
    state: str
    vms: int
    usage: dict[str, HostUsage]


class MapCell(msgspec.Struct, frozen=True):
    """One host on the map."""

    id: str
    name: str
    percent: int | None
    step: str  # 0 to 9, over, none
    state: str
    mark: str  # shut: no new VMs; away: it does not answer
    tip: str
    spoken: str


def shown_state(host: Host) -> str:
    """Return the condition of a host that matters most, in one word: the mark of one that is ready, else its state."""
    state, *marks = host_conditions(host)
    return marks[0] if marks and state == "ready" else state


def load_of(host: Host) -> HostLoad:
    """Return a host with its allocations and limits, after overcommitment and reserves."""
    used, limit = host.used, host.may_give
    usage = {
        "cpu": _usage("cpu", used.cpu_millis, limit.cpu_millis),
        "memory": _usage("memory", used.memory_bytes, limit.memory_bytes),
        "disk": _usage("disk", used.disk_bytes, limit.disk_bytes),
    }
    return HostLoad(host.id, host.name, shown_state(host), host.vms, usage)


def fleet_usage(hosts: Sequence[HostLoad]) -> list[HostUsage]:
    """Return the allocations of the whole fleet."""
    return [
        _usage(name, sum(host.usage[name].used for host in hosts), sum(host.usage[name].total for host in hosts))
        for name in RESOURCES
    ]


def map_cells(hosts: Sequence[HostLoad], by: str) -> list[MapCell]:
    """Return the map for one resource, in the order of the hosts."""
    return [_cell(host, by) for host in hosts]


def color_step(percent: int | None) -> str:
    """Return the color step of a share."""
    if percent is None:
        return "none"
    return "over" if percent > 100 else str(min(max(percent, 0) // 10, 9))


def map_density(count: int) -> str:
    """Return how large cells are when there are so many."""
    if count >= _DENSE:
        return "dense"
    return "middle" if count >= _MIDDLE else "roomy"


def _cell(host: HostLoad, by: str) -> MapCell:
    percent = host.usage[by].percent
    mark = "away" if host.state in AWAY_STATES else "" if host.state == "ready" else "shut"
    parts = [f"{one.title} {one.text}" for one in host.usage.values()]
    head = f"{host.name} · {host.state} · {plural(host.vms, 'VM')}"
    spoken = f"{host.name}, {host.state}, {', '.join(parts)}, {plural(host.vms, 'VM')}"
    return MapCell(
        host.id, host.name, percent, color_step(percent), host.state, mark, "\n".join((head, *parts)), spoken
    )


def _usage(name: str, used: int, total: int) -> HostUsage:
    text = cpu_text if name == "cpu" else bytes_text
    return HostUsage(name, _NAMES[name], used, total, text(used), text(total), percent_used(used, total))
