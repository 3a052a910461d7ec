"""The loop that drives an engine for all other queries: step, carry out, repeat until nothing is left to do.

``run_until_idle`` steps. A ``Carrier`` carries out the actions and reports the results to the engine. It also decides
how many guests a step may decide, and whether time passes when nothing is due. So a simulation, a plan, a what-if and a
placement of files differ only in their carriers. The loop reads no clock: the caller supplies the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from hostler.engine import Engine
from hostler.engine.journals.journal import Recorder
from hostler.model import (
    MAX_AMOUNT,
    Abandon,
    Action,
    Answered,
    Ask,
    Bind,
    Evict,
    GuestBound,
    GuestLeft,
    Move,
    Nominate,
    Prepare,
    Prepared,
    QueueRules,
)

__all__ = [
    "CHUNK", "NO_ANSWER", "Advance", "Carrier", "ChunkCarrier", "Driver", "Observe", "UnattendedCarrier", "decide_all",
    "decide_once", "ignore_progress", "run_until_idle",
]  # fmt: skip

CHUNK = 8192  # guests per chunk
NO_ANSWER = "no outside scorer can be asked here"

Driver: TypeAlias = Engine | Recorder
Observe: TypeAlias = Callable[[Sequence[Action]], None]
Advance: TypeAlias = Callable[[int], None]  # called with the progress of a long query since the last call


def ignore_progress(count: int) -> None:
    """Ignore progress."""


class Carrier:
    """Carries out an engine's actions. This base class confirms nothing and lets no time pass."""

    limit: int | None = None  # guests that the next step decides at most

    def carry_out(self, actions: list[Action], now: int) -> bool:
        """Carry out the actions, report results to the engine, and return whether to stop early."""
        raise NotImplementedError

    def next_moment(self, now: int, due: int | None) -> int | None:
        """Return the time of the next step if nothing is due before ``due``; None ends the run."""
        return None


def run_until_idle(driver: Driver, now: int, carrier: Carrier, *, most_steps: int = MAX_AMOUNT) -> int | None:
    """Step until nothing is due; return None, or the time of the next step if the run stopped early.

    It stops early when the carrier says so, and after ``most_steps``. Steps that only continue a gang's search do not
    count, because a search ends by itself.
    """
    engine = driver.engine if isinstance(driver, Recorder) else driver
    steps = 0
    while True:
        steps += not engine.is_searching
        actions = driver.step(now, carrier.limit)
        is_over = carrier.carry_out(actions, now)
        due = engine.next_due()
        if due is None or due > now:
            later = carrier.next_moment(now, due)
            if later is None:
                return None
            now = later
        if is_over or steps >= most_steps:
            return now


class UnattendedCarrier(Carrier):
    """Carries out what needs no outside system: questions get no answer, and evicted guests leave at once.

    ``observe`` sees the actions of each step before they are carried out, while the victims are still there.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        no_answer: str = NO_ANSWER,
        prepares: bool = False,
        observe: Observe | None = None,
    ) -> None:
        self.has_news = False  # whether the engine was told something after the last step
        self._driver = driver
        self._engine = driver.engine if isinstance(driver, Recorder) else driver
        self._no_answer = no_answer
        self._prepares = prepares
        self._observe = observe

    def carry_out(self, actions: list[Action], now: int) -> bool:
        """Answer questions, confirm preparations, and let evicted guests leave."""
        if self._observe is not None:
            self._observe(actions)
        self.has_news = self._answer(actions, now) | self._let_leave(now)
        return False

    def _answer(self, actions: Sequence[Action], now: int) -> bool:
        has_any = False
        for action in actions:
            if isinstance(action, Ask):
                self._driver.apply(Answered(at=now, uid=action.uid, ask=action.ask, error=self._no_answer))
                has_any = True
            elif self._prepares and isinstance(action, Prepare):
                self._driver.apply(Prepared(at=now, uid=action.uid, host=action.host))
                has_any = True
        return has_any

    def _let_leave(self, now: int) -> bool:
        """Let all guests leave that make room for others, including those that were leaving anyway; some move."""
        leaving = list(self._engine.view.evicting)
        for uid in leaving:
            move = self._engine.view.moves.get(uid)
            if move is not None and not move.replacement:
                self._driver.apply(GuestBound(at=now, uid=uid, host=move.host))
            else:
                self._driver.apply(GuestLeft(at=now, uid=uid))
        return bool(leaving)


class ChunkCarrier(UnattendedCarrier):
    """Decides a whole set of guests, ``CHUNK`` of them at a time, and carries out the actions after each chunk.

    Chunks always have the same size, so a run writes the same journal with and without an observer. Time passes only if
    an event may help a guest in backoff, and then to the end of all backoffs: waiting guests are tried by priority, not
    by chance. Preparations are never confirmed, so time never reaches a deadline for one.
    """

    def __init__(self, driver: Driver, *, observe: Observe | None = None) -> None:
        super().__init__(driver, observe=observe)
        self.limit = self._left = CHUNK  # of this chunk
        self._actions: list[Action] = []  # of this chunk, to be carried out
        self._until = self._engine.now  # how far time may move on
        self._prepared_by = MAX_AMOUNT
        self._goes_on = True

    @property
    def chunk_left(self) -> int:
        """Return the maximum number of guests that the next step decides."""
        return self._left

    def carry_out(self, actions: list[Action], now: int) -> bool:
        """Carry out a chunk when it is complete or nothing more is due."""
        if self._observe is not None:
            self._observe(actions)
        engine = self._engine
        taken = sum(not isinstance(action, Nominate | Evict | Move | Abandon) for action in actions)
        # A gang is one entry of the queue with many actions, or none: only the queue knows whether that was all.
        is_settled = not actions and not engine.is_searching
        due = engine.next_due()
        is_drained = taken < self._left and (is_settled or due != now)
        self.limit = self._left = max(self._left - taken, 0)
        self._note(actions, now)
        if self._left and not is_drained:
            return False
        self.has_news = self._answer(self._actions, now) | self._let_leave(now)
        self._actions = []
        self.limit = self._left = CHUNK
        self._goes_on = self.has_news or not is_drained
        return not self._goes_on and due is not None and due <= now

    def next_moment(self, now: int, due: int | None) -> int | None:
        """Return now if there is more to decide, else the end of all backoffs if that may help a guest."""
        if self._goes_on:
            return now
        end = min(self._until, self._prepared_by - 1)
        return None if due is None or due > end else end

    def _note(self, actions: Sequence[Action], now: int) -> None:
        self._actions += [action for action in actions if isinstance(action, Ask)]
        deadlines = [action.deadline for action in actions if isinstance(action, Prepare)]
        self._prepared_by = min(self._prepared_by, *deadlines) if deadlines else self._prepared_by
        if any(isinstance(action, Bind | Prepare | Evict | Move) for action in actions):
            self._until = now + _longest_pause(self._engine.view.rules)


def decide_all(driver: Driver, *, observe: Observe | None = None) -> list[Action]:
    """Decide all waiting guests without any outside system; return all actions in order.

    With ``observe``, nothing is returned: it sees the actions of each step before victims leave.
    """
    actions: list[Action] = []
    engine = driver.engine if isinstance(driver, Recorder) else driver
    run_until_idle(driver, engine.now, ChunkCarrier(driver, observe=observe or actions.extend))
    return actions


def decide_once(driver: Driver, now: int, count: int) -> list[Action]:
    """Decide ``count`` waiting guests once, at one moment; return the actions. No guest is tried twice."""
    carrier = _OnceCarrier(count)
    run_until_idle(driver, now, carrier)
    return carrier.actions


class _OnceCarrier(Carrier):
    """Stops when there are as many actions as guests; a plugin's error ends a step before its guest."""

    def __init__(self, count: int) -> None:
        self.actions: list[Action] = []
        self._count = count

    def carry_out(self, actions: list[Action], now: int) -> bool:
        self.actions += actions
        return not actions or len(self.actions) >= self._count


def _longest_pause(rules: QueueRules) -> int:
    """Return the longest backoff of a rejected guest."""
    return rules.backoff_max_ns * (100 + rules.jitter_percent) // 100
