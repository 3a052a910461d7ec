"""What ``hostler capacity`` does: count how many copies of a guest fit, or how many hosts a set of guests needs.

Both answers come from real placements under the policy, so they hold for that policy and not for the best one
conceivable.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from hostler.cli.inputs import Inputs, read_parts
from hostler.cli.kernels import Kernels
from hostler.cli.runs import CHUNK, arrive, decide, find_guest, is_pending, open_engine, shown_name
from hostler.cli.terminal import progress
from hostler.config import read_documents
from hostler.engine import BUILT_IN
from hostler.errors import InputError
from hostler.model import Bind, Decision, Guest, Policy, Prepare

__all__ = ["Fit", "count_copies", "read_guest"]

FIRST_BATCH = 64
LONG_COUNT = 100_000  # copies from which on a progress bar is shown


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How many copies of a guest fit beside everything else."""

    guest: Guest
    count: int
    is_limit: bool  # counting stopped at --max; more may fit
    pending: int
    pending_placed: int
    per_host: tuple[tuple[str, int], ...]  # most first
    next: Decision | None  # why the one after the last does not fit


def read_guest(path: str, name: str, known: dict[str, Policy] | None = None) -> Guest:
    """Read the guest to count from a file; its hosts, and where the guest runs now, do not matter."""
    fleets = [msgspec.structs.replace(part, hosts=()) for part in read_parts(read_documents([path]), known or BUILT_IN)]
    guests = [_unbound(guest) for fleet in fleets for guest in fleet.guests]
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
    """Place what is pending, then copies of the guest in growing batches until one is refused."""
    engine = open_engine(inputs, kernels, seed=seed)
    arrive(engine, inputs.fleet.hosts, inputs.fleet.guests)
    placed = sum(isinstance(action, Bind | Prepare) for action in decide(engine))
    per_host: Counter[str] = Counter()
    refused: Decision | None = None
    count, size = 0, FIRST_BATCH
    with progress("placing copies", None, is_long=most > LONG_COUNT) as advance:
        while count < most and refused is None:
            size = min(size * 4, CHUNK, most - count) if count else min(size, most)
            arrive(engine, (), _copies(guest, count, size))
            for action in decide(engine):
                if isinstance(action, Bind | Prepare):
                    per_host[action.host] += 1
                    count += 1
                else:
                    refused = refused or engine.decision(action.uid)
            advance(size)
    return Fit(
        guest=guest,
        count=count,
        is_limit=refused is None,
        pending=sum(map(is_pending, inputs.fleet.guests)),
        pending_placed=placed,
        per_host=tuple(sorted(per_host.items(), key=lambda item: (-item[1], item[0]))),
        next=refused,
    )


def _copies(guest: Guest, first: int, count: int) -> list[Guest]:
    """Return guests of the same shape; their uids cannot be those of others, which have no space in them."""
    return [
        Guest(name=f"{guest.name}-{number}", uid=f"copy {number} of {guest.uid}", spec=guest.spec)
        for number in range(first, first + count)
    ]
