"""The effect of a reservation now: hosts that keep it, hosts that lack its room, and what it leaves for others. Pure.

A reservation is always accepted, even if it closes the whole fleet or exceeds the free room. Its owner should know.
"""

from __future__ import annotations

import msgspec

from hostler.config.fleet.file_terms import TermEntry
from hostler.engine import Engine, EngineView
from hostler.engine.state.reservations import covers
from hostler.errors import InputError
from hostler.model import (
    CPU,
    MEMORY,
    STORAGE,
    Amounts,
    Reservation,
    ReservationChanged,
    ReservationLeft,
    format_resource,
)

__all__ = ["ReservationCoverage", "check_holdable", "coverage_text", "measure_coverage", "spread_total"]

_CHECKED = (CPU, MEMORY, STORAGE)


class ReservationCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """How many hosts keep a reservation; ``short`` lack some of it now, ``full`` have nothing left for others."""

    fleet: int
    hosts: int
    short: int
    full: int
    lacking: tuple[str, ...]  # resources that some host has no more of for others
    is_in_force: bool


def measure_coverage(engine: Engine, reservation: Reservation) -> ReservationCoverage:
    """Return the coverage of a reservation, on a fork of the engine that may not know it yet."""
    view, name = engine.view, reservation.name
    known = view.reservations.get(name)
    if known is None or known.version != reservation.version:
        engine.apply(ReservationLeft(name=name))
        engine.apply(ReservationChanged(reservation=reservation))
    kept = [host.name for host in engine.hosts() if covers(reservation, host)]
    is_in_force = view.is_in_force(name)
    rooms = [_left(view, reservation, host) for host in kept] if is_in_force else []
    return ReservationCoverage(
        fleet=view.host_count,
        hosts=len(kept),
        short=sum(any(left < 0 for left in room.values()) for room in rooms),
        full=sum(any(left <= 0 for left in room.values()) for room in rooms),
        lacking=tuple(sorted({resource for room in rooms for resource, left in room.items() if left <= 0})),
        is_in_force=is_in_force,
    )


def check_holdable(engine: Engine, reservation: Reservation) -> None:
    """Reject amounts that are more than any matching host may ever give; InputError. Hosts may join later, if none is.

    Only cpu, memory and disks are checked: what else a host has may come with its next registration.
    """
    hosts = [host.name for host in engine.hosts() if covers(reservation, host)]
    for resource, amount in reservation.amounts:
        if not hosts or resource not in _CHECKED:
            continue
        most = max(engine.view.room_limit(host, resource) for host in hosts)
        if amount > most:
            asked, largest = (f"{resource} {format_resource(resource, one)}" for one in (amount, most))
            raise InputError(
                f"amounts: none of {_hosts(len(hosts))} can hold {asked}; the most that one can hold is {largest}",
                hint="amounts are kept on each host; total (--total) is for all hosts together",
            )


def spread_total(engine: Engine, reservation: Reservation, total: Amounts) -> tuple[Amounts, list[TermEntry]]:
    """Divide a total over the matching hosts; return what each of them keeps, and a term that names them. InputError.

    All hosts keep the same share, rounded up to a whole unit. A host without free room for the share is left out and
    the others get more, until all that are left have room. So the same fleet always gives the same hosts.
    """
    view = engine.view
    matching = sorted(host.name for host in engine.hosts() if covers(reservation, host))
    free = {host: {resource: _free(view, host, resource) for resource, _ in total} for host in matching}
    left = matching
    while left:
        share = tuple((resource, -(-amount // len(left))) for resource, amount in total)
        having = [host for host in left if all(free[host][resource] >= amount for resource, amount in share)]
        if having == left:
            return share, [TermEntry(names=list(left))]
        left = having
    asked = ", ".join(f"{resource} {format_resource(resource, amount)}" for resource, amount in total)
    raise InputError(
        f"total: no equal share of {asked} is free on {_hosts(len(matching))}",
        hint="reserve less, or amounts on hosts of your choice; 'hostler host list' shows what is used",
    )


def _free(view: EngineView, host: str, resource: str) -> int:
    """Return what a host has left of a resource after reservations."""
    kept = sum(amounts.get(resource, 0) for amounts in view.reserved_on(host).values())
    return view.room_left(host, resource) - kept


def coverage_text(found: ReservationCoverage, whom: str) -> str:
    """Describe the coverage of a reservation for ``whom`` in one sentence."""
    if not found.hosts:
        return f"none of {_hosts(found.fleet)} matches it: it keeps nothing"
    which = f"{found.hosts} of {_hosts(found.fleet)}"
    if not found.is_in_force:
        return f"{which} match it, but it has not begun, or has ended"
    texts = [f"{which} keep{'s' if found.hosts == 1 else ''} it"]
    if found.short:
        where = "there" if found.hosts == 1 else f"on {found.short} of them"
        texts.append(f"{where} a part of its room is still in use, and is kept as soon as it is free")
    if found.full:
        lacking = " or ".join(found.lacking)
        where = "no host" if found.full == found.fleet else _hosts(found.full)
        has = "has" if where == "no host" or found.full == 1 else "have"
        texts.append(f"{where} {has} {'' if where == 'no host' else 'no '}{lacking} left for others than {whom}")
    return "; ".join(texts)


def _left(view: EngineView, reservation: Reservation, host: str) -> dict[str, int]:
    """Return how much of each reserved resource a host has left for others; below 0 it lacks that much itself."""
    kept = list(view.reserved_on(host).values())
    return {
        resource: view.room_left(host, resource) - sum(amounts.get(resource, 0) for amounts in kept)
        for resource, amount in reservation.amounts
        if amount
    }


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
