"""Reserved room of hosts, as a fork of the engine counts it. A host may look free and have no room for others.

Room that is used by VMs of the reservation counts as used, not as reserved. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.control.access.principals import Principal
from hostler.control.schemas import Host, HostReserved
from hostler.control.services.visible_names import UNKNOWN_RESERVATION
from hostler.engine import Engine
from hostler.model import format_resource

__all__ = ["with_reserved"]


def with_reserved(engine: Engine, found: Sequence[Host], principal: Principal) -> list[Host]:
    """Return hosts with the room that each reservation keeps there, with the names that the caller may see."""
    return [msgspec.structs.replace(host, reserved=_on(engine, host.name, principal)) for host in found]


def _on(engine: Engine, host: str, principal: Principal) -> list[HostReserved]:
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
