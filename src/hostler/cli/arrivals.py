"""A fleet told to an engine, in an order in which everything means what it should: what others depend on first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from hostler.cli.runs import Driver
from hostler.config import Fleet, Tenancy, tenancy_facts
from hostler.model import (
    Event,
    Guest,
    GuestArrived,
    GuestsArrived,
    GuestSpec,
    Host,
    HostsJoined,
)

__all__ = ["arrive", "arrive_fleet", "arrive_tenancy"]


def arrive_fleet(driver: Driver, fleet: Fleet) -> None:
    """Tell the engine about a whole fleet."""
    arrive_tenancy(driver, fleet.tenancy)
    arrive(driver, fleet.hosts, fleet.guests)


def arrive_tenancy(driver: Driver, tenancy: Tenancy) -> None:
    """Tell the engine about namespaces, gangs, budgets, quotas and reservations, as far as there are any."""
    for fact in tenancy_facts(tenancy):
        driver.apply(fact)


def arrive(driver: Driver, hosts: Sequence[Host], guests: Sequence[Guest]) -> None:
    """Tell the engine about hosts, then guests that already run, then those to be placed, each in their order."""
    driver.apply(HostsJoined(hosts=tuple(hosts)))
    # Those that name their devices first: nobody else may be given them.
    for guest in guests:
        if guest.host and guest.on_devices:
            driver.apply(GuestArrived(guest=guest))
    for is_placed in (True, False):
        chosen = [guest for guest in guests if bool(guest.host) == is_placed and not (is_placed and guest.on_devices)]
        for event in _arrivals(chosen):
            driver.apply(event)


def _arrivals(guests: Sequence[Guest]) -> Iterator[Event]:
    """Turn guests into facts, many at once where columns can carry all that is known about them."""
    for is_plain, group in groupby(guests, key=_is_plain):
        if not is_plain:
            yield from (GuestArrived(guest=guest) for guest in group)
            continue
        members = list(group)
        specs: dict[GuestSpec, int] = {}
        spec_of = tuple(specs.setdefault(guest.spec, len(specs)) for guest in members)
        yield GuestsArrived(
            specs=tuple(specs),
            spec_of=spec_of,
            names=tuple(guest.name for guest in members),
            uids=tuple(guest.uid for guest in members),
            hosts=tuple(guest.host for guest in members) if members[0].host else (),
        )


def _is_plain(guest: Guest) -> bool:
    has_more = guest.version or guest.on_devices or guest.started or guest.gang
    return not has_more and guest.draw_key is None
