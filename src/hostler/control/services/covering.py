"""What a reservation does now: how many hosts keep it, where others have that room yet, and what it leaves them. Pure.

A reservation is a wish that is taken whatever it takes: one that closes the whole fleet, or holds more than is free, is
no mistake that could be refused. Whoever makes it should know.
"""

from __future__ import annotations

import msgspec

from hostler.engine import Engine
from hostler.engine.reservations import RESERVATION, covers
from hostler.engine.state import State
from hostler.model import Reservation, ReservationChanged, ReservationLeft

__all__ = ["Covering", "covering", "said"]


class Covering(msgspec.Struct, frozen=True, kw_only=True):
    """Of how many hosts which keep a reservation; ``short`` lack some of it now, ``full`` have nothing for others."""

    fleet: int
    hosts: int
    short: int
    full: int
    lacking: tuple[str, ...]  # resources of which nothing is left for others on some host
    is_in_force: bool


def covering(engine: Engine, reservation: Reservation) -> Covering:
    """Look at what a reservation does, on a twin of the engine that may not know of it yet."""
    state, name = engine.state, reservation.name
    known = state.reservations.get(name)
    if known is None or known.version != reservation.version:
        engine.apply(ReservationLeft(name=name))
        engine.apply(ReservationChanged(reservation=reservation))
    rows = [row for row, host in enumerate(state.cluster.host_at) if host is not None]
    kept = [row for row in rows if covers(reservation, state.cluster.host(row))]
    is_in_force = name in state.in_force
    rooms = [_left(state, reservation, row) for row in kept] if is_in_force else []
    return Covering(
        fleet=len(rows),
        hosts=len(kept),
        short=sum(any(left < 0 for left in room.values()) for room in rooms),
        full=sum(any(left <= 0 for left in room.values()) for room in rooms),
        lacking=tuple(sorted({resource for room in rooms for resource, left in room.items() if left <= 0})),
        is_in_force=is_in_force,
    )


def said(found: Covering, whom: str) -> str:
    """Say what a reservation for ``whom`` does now, in one sentence."""
    if not found.hosts:
        return f"none of {_hosts(found.fleet)} matches it: nothing is kept"
    which = f"{found.hosts} of {_hosts(found.fleet)}"
    if not found.is_in_force:
        return f"{which} would keep it, and none does now: it has not begun, or has ended"
    texts = [f"{which} keep{'s' if found.hosts == 1 else ''} it"]
    if found.short:
        where = "there" if found.hosts == 1 else f"on {found.short} of them"
        texts.append(f"{where} it is not wholly held yet: that room is not free, and is kept as soon as it is")
    if found.full:
        lacking = " or ".join(found.lacking)
        where = "no host" if found.full == found.fleet else _hosts(found.full)
        has = "has" if where == "no host" or found.full == 1 else "have"
        texts.append(f"{where} {has} {'' if where == 'no host' else 'no '}{lacking} left for others than {whom}")
    return "; ".join(texts)


def _left(state: State, reservation: Reservation, row: int) -> dict[str, int]:
    """Return what a host still has for others of each resource that is reserved; below 0, what it lacks itself."""
    cluster, limits = state.cluster, state.profiles.profiles[0].limit_set  # all strategies have the service's limits
    cluster.fit_layout()  # nobody may have heard of a resource before
    holds = [hold for name, hold in cluster.holds.on(row) if name.startswith(RESERVATION)]
    left = {}
    for resource, amount in reservation.amounts:
        if amount:
            number = state.tables.resources.number(resource)
            held = sum(dict(hold.amounts).get(number, 0) for hold in holds)
            left[resource] = cluster.limit(row, number, limits) - cluster.used(row, number) - held
    return left


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
