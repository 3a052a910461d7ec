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
from hostler.engine.reservations import RESERVATION
from hostler.model import format_resource

__all__ = ["with_reserved"]


def with_reserved(engine: Engine, found: Sequence[Host], principal: Principal) -> list[Host]:
    """Return hosts with what is kept on each, by the name of the reservation as far as the caller may know it."""
    return [msgspec.structs.replace(host, reserved=_on(engine, host.name, principal)) for host in found]


def _on(engine: Engine, host: str, principal: Principal) -> list[HostReserved]:
    cluster, names = engine.state.cluster, engine.state.tables.resources.values
    row = cluster.row_of.get(host)
    holds = cluster.holds.on(row) if row is not None else []
    found = []
    for name, hold in sorted(holds):
        amounts = {names[number]: format_resource(names[number], amount) for number, amount in hold.amounts if amount}
        if name.startswith(RESERVATION) and amounts:
            shown = _seen(name.removeprefix(RESERVATION), principal)
            found.append(HostReserved(reservation=shown, amounts=dict(sorted(amounts.items()))))
    return found


def _seen(name: str, principal: Principal) -> str:
    project = name.partition("/")[0]
    return name if principal.why_not("reservation.read", project) is None else UNKNOWN_RESERVATION
