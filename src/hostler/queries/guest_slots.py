"""How many copies of a guest fit that requests nothing: only the hosts' limits of guests bound it.

Counting by placements would go on to the maximum, or for ever. So one copy is really placed, which shows the hosts that
take it; nothing but the number of guests can change there, so what is left of the limits adds up to the answer.
A third party's filter may look at anything: with one in the policy, copies are counted as those of any other guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from hostler.engine import Engine, Registry
from hostler.model import (
    GUESTS,
    MAX_AMOUNT,
    Bind,
    Decision,
    Guest,
    GuestArrived,
    GuestSpec,
    Host,
    Policy,
    Prepare,
    amount_of,
    amounts,
    may_give,
)
from hostler.queries.inputs import PlacementInput, copy_guest
from hostler.queries.runs import decide_all

__all__ = ["Slots", "find_slots", "is_bound_by_guests_alone"]

_PLAIN = GuestSpec()
# What a host says to these does not change with the number of copies; a field that is not named here may.
_STEADY = frozenset({
    "requests", "scored_requests", "priority", "policy", "host_name", "host_selector", "host_affinity",
    "preferred_hosts", "tolerations", "namespace", "labels", "prepare", "images", "siblings", "may_preempt",
})  # fmt: skip


class Slots(msgspec.Struct, frozen=True):
    """How many copies each feasible host takes (None: any number), and why there is no room for more."""

    per_host: Mapping[str, int | None]
    next: Decision | None

    @property
    def total(self) -> int | None:
        """Return how many copies fit; None for any number. No amount goes beyond 2^62."""
        counts = self.per_host.values()
        return None if None in counts else min(sum(count or 0 for count in counts), MAX_AMOUNT)


def is_bound_by_guests_alone(inputs: PlacementInput, spec: GuestSpec) -> bool:
    """Say whether only the hosts' limits of guests bound the copies: the guest requests nothing else."""
    if any(name != GUESTS for name, _ in spec.requests):
        return False
    if any(getattr(spec, field) != getattr(_PLAIN, field) for field in spec.__struct_fields__ if field not in _STEADY):
        return False
    if inputs.tenancy.reservations:
        return False
    built_in, _ = Registry.names()
    policy = inputs.policy_of(spec)
    return not policy.one_guest_per_host and all(use.name in built_in for use in policy.filters)


def find_slots(inputs: PlacementInput, engine: Engine, guest: Guest, placed: Mapping[str, str]) -> Slots:
    """Count the copies that fit beside what runs already and what was ``placed`` (uid to host)."""
    first = copy_guest(guest, 0)
    engine.apply(GuestArrived(guest=first))
    taken = [action.host for action in decide_all(engine) if isinstance(action, Bind | Prepare)]
    if not taken:
        return Slots({}, engine.decision(first.uid))
    policy, places = inputs.policy_of(guest.spec), _places(guest.spec)
    used = _used(inputs.guests, placed)
    fitting = set(engine.explain(first.uid).feasible)
    per_host = {
        host.name: _left(host, policy, used[host.name], places) for host in inputs.hosts if host.name in fitting
    }
    slots = Slots(per_host, None)
    if slots.total is None:
        return slots
    for name, count in per_host.items():
        if others := ((count or 0) - (name in taken)) * places:  # one guest that counts for all of them
            filler = GuestSpec(requests=amounts({GUESTS: others}))
            engine.apply(GuestArrived(guest=Guest(name=name, uid=f"others on {name}", spec=filler, host=name)))
    last = copy_guest(guest, slots.total)
    engine.apply(GuestArrived(guest=last))
    decide_all(engine)
    return Slots(per_host, engine.decision(last.uid))


def _used(guests: Iterable[Guest], placed: Mapping[str, str]) -> Counter[str]:
    """Count the guests on each host."""
    used: Counter[str] = Counter()
    for guest in guests:
        if host := guest.host or placed.get(guest.uid):
            used[host] += _places(guest.spec)
    return used


def _places(spec: GuestSpec) -> int:
    """Return how many guests one copy counts as."""
    return amount_of(spec.requests, GUESTS) or 1


def _left(host: Host, policy: Policy, used: int, places: int) -> int | None:
    """Return how many more copies a host may take; None if its number of guests is not limited."""
    if not any(name == GUESTS for name, _ in host.capacity):
        return None
    return max(may_give(host, GUESTS, policy.overcommit, policy.reserve) - used, 0) // places
