"""How many copies of a guest fit beside everything else.

The answer comes from real placements under the policy, so it holds for that policy, not for the best conceivable one.

For a guest that requests nothing, only the hosts' limits of guests bound the answer. Counting by placements would go on
to the maximum, or for ever. So one copy is really placed, which shows the hosts that take it; nothing but the number of
guests can change there, so what is left of the limits adds up to the answer. A third party's filter may look at
anything: with one in the policy, copies are counted as those of any other guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostler.engine import Engine, Registry
from hostler.model import (
    GUESTS,
    MAX_AMOUNT,
    Action,
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
from hostler.queries.inputs import (
    PlacementInput,
    apply_input,
    apply_members,
    copy_guest,
    is_pending,
    open_engine,
    with_preemption,
)
from hostler.queries.runs import CHUNK, Advance, decide_all, ignore_progress

__all__ = ["Fit", "Slots", "count_copies"]

_PLAIN = GuestSpec()
# What a host says to these does not change with the number of copies; a field that is not named here may.
_STEADY = frozenset({
    "requests", "scored_requests", "priority", "policy", "host_name", "host_selector", "host_affinity",
    "preferred_hosts", "tolerations", "namespace", "labels", "prepare", "images", "siblings", "may_preempt",
    "is_pinned", "move_labels",
})  # fmt: skip
FIRST_BATCH = 64


class Slots(msgspec.Struct, frozen=True):
    """How many copies each feasible host takes (None: any number), and why there is no room for more."""

    per_host: Mapping[str, int | None]
    next: Decision | None

    @property
    def total(self) -> int | None:
        """Return how many copies fit; None for any number. No amount goes beyond 2^62."""
        counts = self.per_host.values()
        return None if None in counts else min(sum(count or 0 for count in counts), MAX_AMOUNT)


def _is_bound_by_guests_alone(inputs: PlacementInput, spec: GuestSpec) -> bool:
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


def _find_slots(inputs: PlacementInput, engine: Engine, guest: Guest, placed: Mapping[str, str]) -> Slots:
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


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How many copies of a guest fit beside everything else."""

    guest: Guest
    count: int | None  # None: any number
    is_limit: bool  # counting stopped at ``most``; more may fit
    is_by_guests_alone: bool  # not counted: the guest requests nothing
    pending: int
    pending_placed: int
    per_host: tuple[tuple[str, int | None], ...]  # most first
    next: Decision | None  # why the one after the last does not fit


def count_copies(inputs: PlacementInput, guest: Guest, *, most: int, advance: Advance = ignore_progress) -> Fit:
    """Place what is pending, then at most ``most`` copies of the guest until one is rejected.

    No guest is evicted, whatever the policies say. ``advance`` is called with the number of additional copies tried.
    """
    inputs = msgspec.structs.replace(inputs, policies=with_preemption(inputs.policies, is_on=False))
    engine = open_engine(inputs)
    apply_input(engine, inputs)
    placed = {action.uid: action.host for action in decide_all(engine) if isinstance(action, Bind | Prepare)}
    per_host: Mapping[str, int | None]
    is_by_guests_alone = _is_bound_by_guests_alone(inputs, guest.spec)
    if is_by_guests_alone:
        slots = _find_slots(inputs, engine, guest, placed)
        per_host, count, rejected, is_limit = slots.per_host, slots.total, slots.next, False
    else:
        counts, rejected = _place_copies(engine, guest, most, advance)
        per_host, count, is_limit = counts, sum(counts.values()), rejected is None
    return Fit(
        guest=guest,
        count=count,
        is_limit=is_limit,
        is_by_guests_alone=is_by_guests_alone,
        pending=sum(map(is_pending, inputs.guests)),
        pending_placed=len(placed),
        per_host=tuple(sorted(per_host.items(), key=lambda item: (item[1] is not None, -(item[1] or 0), item[0]))),
        next=rejected,
    )


def _place_copies(engine: Engine, guest: Guest, most: int, advance: Advance) -> tuple[Counter[str], Decision | None]:
    """Place copies in growing batches until one is rejected; return how many went where, and why it was."""
    per_host: Counter[str] = Counter()
    rejected: Decision | None = None
    count, size = 0, FIRST_BATCH

    def observe(actions: Sequence[Action]) -> None:  # the first rejection, as it stands before anything is answered
        nonlocal count, rejected
        for action in actions:
            if isinstance(action, Bind | Prepare):
                per_host[action.host] += 1
                count += 1
            else:
                rejected = rejected or engine.decision(action.uid)

    while count < most and rejected is None:
        size = min(size * 4, CHUNK, most - count) if count else min(size, most)
        apply_members(engine, (), [copy_guest(guest, number) for number in range(count, count + size)])
        decide_all(engine, observe=observe)
        advance(size)
    return per_host, rejected
