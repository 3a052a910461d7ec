"""One run of the engine over a fleet: facts in, decisions out, with or without a journal.

Everything happens at time 0. Guests are decided in chunks, always of the same size, so that a run with a progress bar
and one without leave the same journal. Nobody outside answers here, so an ``Ask`` is answered by saying so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Protocol

from hostler.cli.inputs import Inputs
from hostler.cli.kernels import Kernels
from hostler.cli.plugins import registry_for
from hostler.config import did_you_mean
from hostler.engine import Engine
from hostler.errors import InputError, UnknownNameError
from hostler.model import (
    Action,
    Answered,
    Ask,
    Event,
    Guest,
    GuestArrived,
    GuestsArrived,
    GuestSpec,
    Host,
    HostsJoined,
    Policy,
    QueueRules,
)

__all__ = ["CHUNK", "Driver", "arrive", "decide", "find_guest", "is_pending", "new_engine", "open_engine", "shown_name"]

CHUNK = 8192  # guests decided by one step
LONG = 20_000  # guests from which on a progress bar is shown
NO_ANSWER = "nobody can be asked here"


class Driver(Protocol):
    """An engine, or a recorder around one."""

    def apply(self, event: Event) -> None:
        """Take a fact."""

    def step(self, now: int, limit: int | None = None) -> list[Action]:
        """Decide."""


def open_engine(inputs: Inputs, kernels: Kernels, *, seed: int = 0) -> Engine:
    """Return an engine with the policies of the input, still empty."""
    return new_engine(inputs.policies, kernels, queue=inputs.queue, seed=seed)


def new_engine(policies: Sequence[Policy], kernels: Kernels, *, queue: QueueRules, seed: int = 0) -> Engine:
    """Return an empty engine; from here on kernels may be compiled."""
    engine = Engine(policies, 0, seed, rules=queue, registry=registry_for(policies))
    kernels.announce()
    return engine


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


def decide(
    driver: Driver, *, before: int | None = None, advance: Callable[[int], None] | None = None
) -> Iterator[Action]:
    """Decide everything, or all decisions ``before`` that number; yield the actions in order."""
    made, room = 0, CHUNK
    asked: list[Ask] = []
    while before is None or made < before - 1:
        limit = room if before is None else min(room, before - 1 - made)
        actions = driver.step(0, limit)
        room -= len(actions)
        if actions:
            made = actions[-1].seq
            yield from actions
        if advance is not None:
            advance(len(actions))
        asked += [action for action in actions if isinstance(action, Ask)]
        is_drained = len(actions) < limit
        if is_drained and not asked:
            return
        if is_drained or not room:
            for ask in asked:
                driver.apply(Answered(uid=ask.uid, ask=ask.ask, error=NO_ANSWER))
            asked, room = [], CHUNK


def is_pending(guest: Guest) -> bool:
    """Say whether a guest is still to be placed."""
    return not guest.host


def shown_name(guest: Guest) -> str:
    """Return a guest's name as people write it: with its namespace unless that is the default one."""
    return guest.name if guest.spec.namespace == "default" else f"{guest.spec.namespace}/{guest.name}"


def find_guest(guests: Sequence[Guest], wanted: str) -> Guest:
    """Look a guest up by name, ``namespace/name`` or uid."""
    for guest in guests:
        if wanted in (guest.uid, f"{guest.spec.namespace}/{guest.name}"):
            return guest
    found = [guest for guest in guests if guest.name == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        names = [f"{guest.spec.namespace}/{guest.name}" for guest in found]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        raise InputError(f"{len(found)} guests are called {wanted!r}", hint=f"write one of {shown}")
    known = [shown_name(guest) for guest in guests]
    numbers = sorted(int(name[len(wanted) + 1 :]) for name in known if _is_counted(name, wanted))
    if len(numbers) > 1:
        raise InputError(
            f"{wanted!r} stands for {len(numbers):,} guests",
            hint=f"name one, {wanted}-{numbers[0]} to {wanted}-{numbers[-1]}",
        )
    raise UnknownNameError(
        f"there is no guest {wanted!r}", hint=did_you_mean(wanted, known) or "the files have no guests at all"
    )


def _is_counted(name: str, prefix: str) -> bool:
    """Say whether a name is the prefix with a number, as an entry with a count makes it."""
    number = name.removeprefix(f"{prefix}-")
    return number != name and number.isascii() and number.isdecimal()


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
    return not guest.version and guest.draw_key is None and not guest.on_devices
