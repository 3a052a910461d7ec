"""How many copies of a guest fit beside everything else.

The answer comes from real placements under the policy, so it holds for that policy, not for the best conceivable one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from hostler.engine import Engine
from hostler.model import Action, Bind, Decision, Guest, Prepare
from hostler.queries.guest_slots import find_slots, is_bound_by_guests_alone
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

__all__ = ["Fit", "count_copies"]

FIRST_BATCH = 64


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
    is_by_guests_alone = is_bound_by_guests_alone(inputs, guest.spec)
    if is_by_guests_alone:
        slots = find_slots(inputs, engine, guest, placed)
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
