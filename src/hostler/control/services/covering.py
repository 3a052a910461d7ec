"""What a reservation does now: how many hosts keep it, where others have that room yet, and what it leaves them. Pure.

A reservation is a wish that is taken whatever it takes: one that closes the whole fleet, or holds more than is free, is
no mistake that could be refused. Whoever makes it should know.
"""

from __future__ import annotations

import msgspec

from hostler.engine import Engine, EngineView
from hostler.engine.reservations import covers
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
    view, name = engine.view, reservation.name
    known = view.reservations.get(name)
    if known is None or known.version != reservation.version:
        engine.apply(ReservationLeft(name=name))
        engine.apply(ReservationChanged(reservation=reservation))
    kept = [host.name for host in engine.hosts() if covers(reservation, host)]
    is_in_force = view.is_in_force(name)
    rooms = [_left(view, reservation, host) for host in kept] if is_in_force else []
    return Covering(
        fleet=view.host_count,
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


def _left(view: EngineView, reservation: Reservation, host: str) -> dict[str, int]:
    """Return what a host still has for others of each resource that is reserved; below 0, what it lacks itself."""
    kept = list(view.reserved_on(host).values())
    return {
        resource: view.room_left(host, resource) - sum(amounts.get(resource, 0) for amounts in kept)
        for resource, amount in reservation.amounts
        if amount
    }


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
