"""Views of hosts: the use of one for schedulers, as lines and as numbers, and the room that reservations keep. Pure.

Reserved room is counted on a fork of the engine: a host may look free and have no room for others. Room that is used by
VMs of the reservation counts as used, not as reserved.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.control.access.principals import Principal
from hostler.control.schemas import Host, HostReserved, Scheduling
from hostler.control.services.visible_names import UNKNOWN_RESERVATION
from hostler.engine import Engine
from hostler.model import format_resource

__all__ = ["scheduling_of", "with_reserved"]

_GIB = 1 << 30
_STATUS = {"ready": "online", "silent": "unknown"}


def scheduling_of(host: Host, running: int) -> Scheduling:
    """Return the use of a host, as text and as numbers."""
    used, total = host.used, host.may_give
    cpu = _percent(used.cpu_millis, total.cpu_millis)
    memory = _percent(used.memory_bytes, total.memory_bytes)
    disk = _percent(used.disk_bytes, total.disk_bytes)
    status = _STATUS.get(host.state, "offline")
    lines = [
        f"Agent: {host.name}",
        f"Status: {status}",
        f"CPU: {_cores(used.cpu_millis)}/{_cores(total.cpu_millis)} ({cpu:.1f}% used)",
        f"Memory: {_gib(used.memory_bytes)}/{_gib(total.memory_bytes)} ({memory:.1f}% used)",
        f"Disk: {_gib(used.disk_bytes)}/{_gib(total.disk_bytes)} ({disk:.1f}% used)",
        f"Running VMs: {running}",
    ]
    return Scheduling(
        agent=host.name,
        status=status,
        cpu_used=used.cpu_millis / 1000,
        cpu_total=total.cpu_millis / 1000,
        cpu_percent=cpu,
        memory_used_bytes=used.memory_bytes,
        memory_total_bytes=total.memory_bytes,
        memory_percent=memory,
        disk_used_bytes=used.disk_bytes,
        disk_total_bytes=total.disk_bytes,
        disk_percent=disk,
        running_vms=running,
        text="\n".join(lines) + "\n",
    )


def _percent(used: int, total: int) -> float:
    """Return the used share in percent; 0 if there is nothing to use."""
    return round(100 * used / total, 1) if total else 0.0


def _cores(millis: int) -> str:
    return f"{millis / 1000:g}"


def _gib(amount: int) -> str:
    return f"{amount / _GIB:.1f} GB"


def with_reserved(engine: Engine, found: Sequence[Host], principal: Principal) -> list[Host]:
    """Return hosts with the room that each reservation keeps there, with the names that the caller may see."""
    return [msgspec.structs.replace(host, reserved=_reserved_on(engine, host.name, principal)) for host in found]


def _reserved_on(engine: Engine, host: str, principal: Principal) -> list[HostReserved]:
    return [
        HostReserved(
            reservation=_visible_name(name, principal),
            amounts={resource: format_resource(resource, amount) for resource, amount in amounts.items()},
        )
        for name, amounts in engine.view.reserved_on(host).items()
        if amounts
    ]


def _visible_name(name: str, principal: Principal) -> str:
    project = name.partition("/")[0]
    return name if principal.why_not("reservation.read", project) is None else UNKNOWN_RESERVATION
