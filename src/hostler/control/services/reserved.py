"""Room of hosts that reservations keep, as a twin of the engine sees it: one that looks free may have none for others.

What VMs have that a reservation is for is used there, and no longer kept. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.control.access.principals import Principal
from hostler.control.api.shapes import Host, HostReserved
from hostler.control.services.discretion import UNKNOWN_RESERVATION
from hostler.engine import Engine
from hostler.model import format_resource

__all__ = ["with_reserved"]


def with_reserved(engine: Engine, found: Sequence[Host], principal: Principal) -> list[Host]:
    """Return hosts with what is kept on each, by the name of the reservation as far as the caller may know it."""
    return [msgspec.structs.replace(host, reserved=_on(engine, host.name, principal)) for host in found]


def _on(engine: Engine, host: str, principal: Principal) -> list[HostReserved]:
    return [
        HostReserved(
            reservation=_seen(name, principal),
            amounts={resource: format_resource(resource, amount) for resource, amount in amounts.items()},
        )
        for name, amounts in engine.view.reserved_on(host).items()
        if amounts
    ]


def _seen(name: str, principal: Principal) -> str:
    project = name.partition("/")[0]
    return name if principal.why_not("reservation.read", project) is None else UNKNOWN_RESERVATION
