"""What ``hostler capacity --guest`` does: count how many copies of a guest fit.

The answer comes from real placements under the policy, so it holds for that policy and not for the best one
conceivable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from hostler.cli.arrivals import arrive, arrive_fleet
from hostler.cli.guest_slots import find_slots, is_bound_by_guests_alone
from hostler.cli.inputs import Inputs
from hostler.cli.kernels import Kernels
from hostler.cli.parts import read_parts
from hostler.cli.runs import CHUNK, copy_of, decide, find_guest, is_pending, open_engine, shown_name
from hostler.cli.terminal import progress
from hostler.config import read_documents
from hostler.engine import BUILT_IN, Engine
from hostler.errors import InputError
from hostler.model import Bind, Decision, Guest, Policy, Prepare

__all__ = ["Fit", "count_copies", "read_guest"]

FIRST_BATCH = 64
LONG_COUNT = 100_000  # copies from which on a progress bar is shown


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How many copies of a guest fit beside everything else."""

    guest: Guest
    count: int | None  # None: any number
    is_limit: bool  # counting stopped at --max; more may fit
    is_by_guests_alone: bool  # not counted: the guest requests nothing
    pending: int
    pending_placed: int
    per_host: tuple[tuple[str, int | None], ...]  # most first
    next: Decision | None  # why the one after the last does not fit


def read_guest(
    path: str, name: str, known: dict[str, Policy] | None = None, *, seed_annotations: bool = False
) -> Guest:
    """Read the guest to count from a file; its hosts, and where the guest runs now, do not matter."""
    parts = read_parts(read_documents([path]), known or BUILT_IN, seed_annotations=seed_annotations)
    guests = [_unbound(guest) for part in parts for guest in part.fleet.guests]
    if not guests:
        raise InputError(f"{path}: it has no guests", hint="give a file with the guest to count")
    if name:
        return find_guest(guests, name)
    if len({guest.spec for guest in guests}) > 1:
        names = ", ".join(shown_name(guest) for guest in guests[:6])
        more = f" and {len(guests) - 6} more" if len(guests) > 6 else ""
        raise InputError(
            f"{path}: it has {len(guests)} guests that differ", hint=f"choose by --guest-name: {names}{more}"
        )
    return guests[0]


def _unbound(guest: Guest) -> Guest:
    return msgspec.structs.replace(guest, host="", on_devices=())


def count_copies(inputs: Inputs, kernels: Kernels, guest: Guest, *, most: int, seed: int = 0) -> Fit:
    """Place what is pending, then copies of the guest until one is refused."""
    engine = open_engine(inputs, kernels, seed=seed)
    arrive_fleet(engine, inputs.fleet)
    placed = {action.uid: action.host for action in decide(engine) if isinstance(action, Bind | Prepare)}
    per_host: Mapping[str, int | None]
    is_by_guests_alone = is_bound_by_guests_alone(inputs, guest.spec)
    if is_by_guests_alone:
        slots = find_slots(inputs, engine, guest, placed)
        per_host, count, refused, is_limit = slots.per_host, slots.total, slots.next, False
    else:
        counts, refused = _place_copies(engine, guest, most)
        per_host, count, is_limit = counts, sum(counts.values()), refused is None
    return Fit(
        guest=guest,
        count=count,
        is_limit=is_limit,
        is_by_guests_alone=is_by_guests_alone,
        pending=sum(map(is_pending, inputs.fleet.guests)),
        pending_placed=len(placed),
        per_host=tuple(sorted(per_host.items(), key=lambda item: (item[1] is not None, -(item[1] or 0), item[0]))),
        next=refused,
    )


def _place_copies(engine: Engine, guest: Guest, most: int) -> tuple[Counter[str], Decision | None]:
    """Place copies in growing batches until one is refused; return how many went where, and why it was."""
    per_host: Counter[str] = Counter()
    refused: Decision | None = None
    count, size = 0, FIRST_BATCH
    with progress("placing copies", None, is_long=most > LONG_COUNT) as advance:
        while count < most and refused is None:
            size = min(size * 4, CHUNK, most - count) if count else min(size, most)
            arrive(engine, (), [copy_of(guest, number) for number in range(count, count + size)])
            for action in decide(engine):
                if isinstance(action, Bind | Prepare):
                    per_host[action.host] += 1
                    count += 1
                else:
                    refused = refused or engine.decision(action.uid)
            advance(size)
    return per_host, refused
