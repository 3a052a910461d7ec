"""One run of the engine over a fleet: facts in, decisions out, with or without a journal.

Time begins at 0 and is virtual: it only moves on while something that happened may help a guest that waits. Guests are
decided in chunks, always of the same size, so that a run with a progress bar and one without leave the same journal.
Whoever is evicted leaves at once. Nobody outside answers here, so an ``Ask`` is answered by saying so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from hostler.cli.inputs import Inputs
from hostler.cli.kernels import Kernels
from hostler.cli.plugins import registry_for
from hostler.config import did_you_mean
from hostler.engine import Engine
from hostler.engine.journal import Recorder
from hostler.errors import InputError, UnknownNameError
from hostler.model import (
    MAX_AMOUNT,
    Abandon,
    Action,
    Answered,
    Ask,
    Bind,
    Evict,
    Guest,
    GuestLeft,
    Nominate,
    Policy,
    Prepare,
    QueueRules,
)

__all__ = ["CHUNK", "Driver", "Run", "copy_of", "decide", "find_guest", "is_pending", "new_engine", "open_engine"]
__all__ += ["shown_name"]

CHUNK = 8192  # guests decided by one step
LONG = 20_000  # guests from which on a progress bar is shown
NO_ANSWER = "nobody can be asked here"

Driver: TypeAlias = Engine | Recorder


def open_engine(inputs: Inputs, kernels: Kernels, *, seed: int = 0) -> Engine:
    """Return an engine with the policies of the input, still empty."""
    return new_engine(inputs.policies, kernels, queue=inputs.queue, seed=seed)


def new_engine(policies: Sequence[Policy], kernels: Kernels, *, queue: QueueRules, seed: int = 0) -> Engine:
    """Return an empty engine; from here on kernels may be compiled."""
    engine = Engine(policies, 0, seed, rules=queue, registry=registry_for(policies))
    kernels.announce()
    return engine


class Run:
    """Steps of an engine, one after the other, with what must be told to it in between."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.engine = driver.engine if isinstance(driver, Recorder) else driver
        self.now = self.engine.now
        self.limit = CHUNK  # guests that the next step decides at most
        self._until = self.now  # how far time may move on
        self._prepared_by = MAX_AMOUNT  # nobody prepares anything here, so time never comes to a deadline for it
        self._asked: list[Ask] = []
        self._is_drained = False

    def step(self) -> list[Action]:
        """Decide the next chunk."""
        actions = self._driver.step(self.now, self.limit)
        taken = sum(not isinstance(action, Nominate | Evict | Abandon) for action in actions)
        # A gang is one entry of the queue with many actions, or none: only the queue knows whether that was all.
        is_settled = not actions and not self.engine.is_searching
        self._is_drained = taken < self.limit and (is_settled or self.engine.next_due() != self.now)
        self.limit = max(self.limit - taken, 0)
        self._asked += [action for action in actions if isinstance(action, Ask)]
        deadlines = [action.deadline for action in actions if isinstance(action, Prepare)]
        self._prepared_by = min(self._prepared_by, *deadlines) if deadlines else self._prepared_by
        if any(isinstance(action, Bind | Prepare | Evict) for action in actions):
            self._until = self.now + _longest_pause(self.engine.view.rules)
        return actions

    def follow_up(self) -> bool:
        """Carry out what the last step asked for, let time pass, and say whether there is more to decide."""
        if self.limit and not self._is_drained:
            return True
        is_news = self._answer() | self._let_leave()
        self.limit = CHUNK
        if is_news or not self._is_drained:
            return True
        due, end = self.engine.next_due(), min(self._until, self._prepared_by - 1)
        if due is None or not self.now < due <= end:
            return False
        self.now = end  # all pauses are over then: those who wait are tried by priority, not by chance
        return True

    def _answer(self) -> bool:
        for ask in self._asked:
            self._driver.apply(Answered(at=self.now, uid=ask.uid, ask=ask.ask, error=NO_ANSWER))
        had_any = bool(self._asked)
        self._asked = []
        return had_any

    def _let_leave(self) -> bool:
        """Let go whoever makes room for others, also those that were leaving anyway."""
        leaving = list(self.engine.view.evicting)
        for uid in leaving:
            self._driver.apply(GuestLeft(at=self.now, uid=uid))
        return bool(leaving)


def decide(driver: Driver, *, advance: Callable[[int], None] | None = None) -> Iterator[Action]:
    """Decide everything; yield the actions in order."""
    run, is_on = Run(driver), True
    while is_on:
        actions = run.step()
        yield from actions
        if advance is not None:
            advance(len(actions))
        is_on = run.follow_up()


def copy_of(guest: Guest, number: int) -> Guest:
    """Return a guest of the same shape; its uid cannot be that of another one, which has no space in it."""
    return Guest(name=f"{guest.name}-{number}", uid=f"copy {number} of {guest.uid}", spec=guest.spec)


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


def _longest_pause(rules: QueueRules) -> int:
    """Return how long a guest that was refused may have to wait until it is tried again."""
    return rules.backoff_max_ns * (100 + rules.jitter_percent) // 100
