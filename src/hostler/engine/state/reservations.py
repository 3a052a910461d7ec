"""Reservations: room on hosts that is held for a tenant, a gang or selected guests during a time.

On every matching host, the reserved amount less what its guests use there is held against all other guests.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from heapq import heappush
from operator import itemgetter
from typing import TypeVar

from hostler.engine.cluster.holds import ALWAYS, Hold
from hostler.engine.cluster.shapes import Shape
from hostler.engine.state.state import State, is_for
from hostler.errors import FactError
from hostler.model import GUESTS, MAX_AMOUNT, Amounts, Budget, Gang, Host, Quota, Reservation, amount_of

__all__ = ["RESERVATION", "Reservations", "amounts_on", "covers", "is_news", "used_by_owners"]

RESERVATION = "reservation:"


T = TypeVar("T", Gang, Budget, Quota, Reservation)


def is_news(known: T | None, told: T, name: str) -> bool:
    """Say whether a fact is newer than the known one; two different facts of equal version contradict each other."""
    if known is None or not told.version:
        return told != known
    if told.version == known.version and told != known:
        raise FactError(
            f"two different facts about {name} have version {told.version}", hint="raise the version with every change"
        )
    return told.version > known.version


class Reservations:
    """Keeps the holds of all reservations in step with time, hosts and guests."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put(self, reservation: Reservation) -> None:
        """Add or change a reservation."""
        state = self._state
        _check(reservation)
        known = state.reservations.get(reservation.name)
        if not is_news(known, reservation, f"reservation {reservation.name!r}"):
            return
        state.reservations[reservation.name] = reservation
        self._name_resources(reservation, known)
        state.pass_of.setdefault(reservation.name, _first_free(state.pass_of.values()))
        state.cache.fit_passes(1 + max(state.pass_of.values()))
        for at in (reservation.since, reservation.until):
            if at > state.now:
                heappush(state.deadlines, (at, 0, RESERVATION + reservation.name))
        self.on_time(RESERVATION + reservation.name)

    def remove(self, name: str) -> None:
        """Delete a reservation and release its holds."""
        state = self._state
        known = state.reservations.pop(name, None)
        if known is None:
            return
        self._drop_holds(name)
        self._name_resources(None, known)
        state.in_force.discard(name)
        del state.pass_of[name]
        state.cache.refresh_passes()

    def _name_resources(self, now: Reservation | None, before: Reservation | None) -> None:
        """Add a reservation to the users of its resources, and remove its former version."""
        resources = self._state.tables.resources
        for name in now.resources if now is not None else ():
            resources.acquire(name)
        if before is not None:
            self._drop_holds(before.name)
            for name in before.resources:
                resources.drop(name)
        self._state.renumber()

    def refresh(self, name: str) -> None:
        """Recompute a reservation's holds on all hosts."""
        self._drop_holds(name)
        for row in range(self._state.cluster.rows):
            self._set(name, row)
        self._state.cache.refresh_passes()

    def refresh_row(self, row: int) -> None:
        """Recompute the holds on one host, after its guests or the host itself changed."""
        if not self._state.reservations:
            return
        for name in self._state.reservations:
            self._state.cluster.release_hold(RESERVATION + name, row)
            self._set(name, row)

    def is_live(self, name: str, at: int) -> bool:
        """Say whether a deadline is a reservation's start or end."""
        reservation = self._state.reservations.get(name.removeprefix(RESERVATION))
        return reservation is not None and at in (reservation.since, reservation.until)

    def on_time(self, name: str) -> None:
        """Start or end a reservation now. Until this is called, the passing of time changes nothing."""
        name = name.removeprefix(RESERVATION)
        reservation, now = self._state.reservations[name], self._state.now
        self._state.in_force.discard(name)
        if reservation.since <= now and (not reservation.until or now < reservation.until):
            self._state.in_force.add(name)
        self.refresh(name)

    def _set(self, name: str, row: int) -> None:
        state = self._state
        reservation = state.reservations[name]
        host = state.cluster.host_at[row]
        if host is None or name not in state.in_force or not covers(reservation, host):
            return
        left = []
        for resource, amount in amounts_on(reservation, host):
            number = state.tables.resources.number(resource)
            free = amount - used_by_owners(state, reservation, row, number)
            if free > 0:
                left.append((number, free))
        if left:
            hold = Hold(row, tuple(left), ALWAYS, pass_number=state.pass_of[name])
            state.cluster.hold(RESERVATION + name, hold)

    def _drop_holds(self, name: str) -> None:
        state = self._state
        for row in state.cluster.holds.rows_of(RESERVATION + name):
            state.cluster.release_hold(RESERVATION + name, row)
            state.note_improvement(row)


def used_by_owners(state: State, reservation: Reservation, row: int, resource: int) -> int:
    """Return how much of a resource of a host the guests use that a reservation is for."""
    return sum(
        _held(shape, resource)
        for uid, shape in state.cluster.guests_on[row].items()
        if is_for(reservation, shape.spec, state.guests[uid].guest.gang)
    )


def _held(shape: Shape, resource: int) -> int:
    return next((amount for number, amount in shape.amounts if number == resource), 0)


def covers(reservation: Reservation, host: Host) -> bool:
    """Say whether a reservation holds room on a host."""
    if reservation.shares:
        return _find_share(reservation, host.name) is not None
    return not reservation.hosts or any(term.matches(host.name, host.labels) for term in reservation.hosts)


def amounts_on(reservation: Reservation, host: Host) -> Amounts:
    """Return what a reservation holds on a host that it covers, its guests' use included."""
    return (_find_share(reservation, host.name) or ()) if reservation.shares else reservation.amounts


def _find_share(reservation: Reservation, host: str) -> Amounts | None:
    at = bisect_left(reservation.shares, host, key=itemgetter(0))  # many hosts, and asked for each of them
    found = reservation.shares[at : at + 1]
    return found[0][1] if found and found[0][0] == host else None


def _first_free(taken: Iterable[int]) -> int:
    numbers = set(taken)
    return next(number for number in range(len(numbers) + 1) if number not in numbers)


def _check(reservation: Reservation) -> None:
    if not reservation.name:
        raise FactError("a reservation has no name")
    if not (reservation.tenant or reservation.gang or reservation.selector is not None):
        problem = f"reservation {reservation.name!r} has no tenant, gang or selector"
        raise FactError(problem, hint="name one of them: it says who may use the reserved room")
    _check_shares(reservation)
    every = [reservation.amounts, *(amounts for _, amounts in reservation.shares)]
    for name, amount in (pair for amounts in every for pair in amounts):
        if not 0 <= amount <= MAX_AMOUNT:
            raise FactError(f"reservation {reservation.name!r} has {amount} of {name}, not between 0 and 2^62")
    if not 0 <= reservation.since < 2**62 or not 0 <= reservation.until < 2**62:
        raise FactError(f"reservation {reservation.name!r} begins or ends at a time that is none")
    if reservation.until and reservation.until <= reservation.since:
        raise FactError(f"reservation {reservation.name!r} ends before it starts")
    if any(amount_of(amounts, GUESTS) for amounts in every):
        raise FactError(f"reservation {reservation.name!r} reserves guests, which are no amount")


def _check_shares(reservation: Reservation) -> None:
    hosts = [host for host, _ in reservation.shares]
    if hosts and (reservation.amounts or reservation.hosts):
        raise FactError(f"reservation {reservation.name!r} has shares beside amounts or hosts")
    if "" in hosts:
        raise FactError(f"reservation {reservation.name!r}: a share has no host")
    if hosts != sorted(set(hosts)):  # a share is found by bisection
        raise FactError(f"reservation {reservation.name!r}: shares are not in order of host, each once")
