"""The effect of a reservation now: hosts that keep it, hosts that lack its room, and what it leaves for others. Pure.

A reservation may close the whole fleet or exceed the free room, so its owner should know. ``find_closed`` is for
requests that are to leave room.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostler.engine import Engine, EngineView
from hostler.engine.state.reservations import amounts_on, covers
from hostler.errors import InputError
from hostler.model import (
    CPU,
    MEMORY,
    STORAGE,
    Amounts,
    Host,
    Reservation,
    ReservationChanged,
    ReservationLeft,
    format_resource,
)

__all__ = [
    "ReservationCoverage", "check_holdable", "coverage_text", "divide_total", "find_closed", "measure_coverage",
]  # fmt: skip

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
    kept = [host for host in engine.hosts() if covers(reservation, host)]
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


def divide_total(engine: Engine, reservation: Reservation, total: Amounts) -> dict[str, Amounts]:
    """Divide a total over the matching hosts; return what each of them keeps, by name. InputError if it does not fit.

    Room counts as free if no VM of others uses it and no other reservation keeps it.

    1. Equal shares, rounded up to a whole unit. A host without room for the share is left out and the others get more,
       until all that are left have room.
    2. If there are none: each resource on its own, as equally as room allows. Hosts with less room than an equal share
       of what is left, the one with the least first, keep all their room; the others divide the rest equally. Whole
       units that are left over go to the first hosts by name.

    So the same fleet always gives the same shares, and whatever fits on all hosts together is accepted.
    """
    matching = sorted(host.name for host in engine.hosts() if covers(reservation, host))
    free = {
        host: {resource: _free(engine.view, reservation, host, resource) for resource, _ in total} for host in matching
    }
    left = matching
    while left:
        share = tuple((resource, -(-amount // len(left))) for resource, amount in total)
        having = [host for host in left if all(free[host][resource] >= amount for resource, amount in share)]
        if having == left:
            return dict.fromkeys(left, share)
        left = having
    parts = [
        (resource, _fill({host: free[host][resource] for host in matching}, resource, amount))
        for resource, amount in total
    ]
    shares = {host: tuple((resource, part[host]) for resource, part in parts if part[host]) for host in matching}
    return {host: share for host, share in shares.items() if share}


def _fill(free: Mapping[str, int], resource: str, amount: int) -> dict[str, int]:
    """Divide an amount as equally as the room of hosts allows; InputError if it is more than all of it."""
    if amount > sum(free.values()):
        asked, most = (f"{resource} {format_resource(resource, one)}" for one in (amount, sum(free.values())))
        raise InputError(
            f"total: {asked} is more than the {most} that {_hosts(len(free))} {_have(len(free))} left",
            hint="reserve less; 'hostler host list' shows what is used and reserved",
        )
    found: dict[str, int] = {}
    hosts = sorted(free, key=lambda host: (free[host], host))
    while hosts and free[hosts[0]] <= amount // len(hosts):
        host = hosts.pop(0)
        found[host] = free[host]
        amount -= free[host]
    for number, host in enumerate(sorted(hosts)):
        found[host] = amount // len(hosts) + (number < amount % len(hosts))
    return found


def find_closed(engine: Engine, reservation: Reservation) -> list[str]:
    """Return the resources that no host would have any more of for others, while the reservation is in force.

    Only those that it takes: a resource that is used up already is not its doing. Changes the fork of the engine.
    """
    view, hosts = engine.view, [host.name for host in engine.hosts()]
    if reservation.name in view.reservations:
        engine.apply(ReservationLeft(name=reservation.name))
    open_before = [
        name for name in reservation.resources if any(_left_for_others(view, host, name) > 0 for host in hosts)
    ]
    engine.apply(ReservationChanged(reservation=msgspec.structs.replace(reservation, since=0, until=0)))
    return [name for name in open_before if all(_left_for_others(view, host, name) <= 0 for host in hosts)]


def _left_for_others(view: EngineView, host: str, resource: str) -> int:
    """Return what a host has left of a resource after reservations."""
    return view.room_left(host, resource) - sum(kept.get(resource, 0) for kept in view.reserved_on(host).values())


def _free(view: EngineView, reservation: Reservation, host: str, resource: str) -> int:
    """Return what a host has of a resource for a reservation: what others do not use, and what it keeps itself."""
    own = view.used_by_owners(reservation, host, resource)
    others = (kept for name, kept in view.reserved_on(host).items() if name != reservation.name)
    return max(view.room_left(host, resource) + own - sum(kept.get(resource, 0) for kept in others), 0)


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
        has = "has" if where == "no host" else _have(found.full)
        texts.append(f"{where} {has} {'' if where == 'no host' else 'no '}{lacking} left for others than {whom}")
    return "; ".join(texts)


def _left(view: EngineView, reservation: Reservation, host: Host) -> dict[str, int]:
    """Return how much of each reserved resource a host has left for others; below 0 it lacks that much itself."""
    return {
        resource: _left_for_others(view, host.name, resource)
        for resource, amount in amounts_on(reservation, host)
        if amount
    }


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
