"""Followers that begin anywhere in a random log decide as the leader did, and write the same checkpoints.

The runs are those of the engine's twins. Here they pass through the log: facts wait for steps, some are written while
a step is decided, clocks of writers are ahead or behind, and checkpoints are taken between a fact and its step.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from hostler.control.books.follower import Follower
from hostler.control.store.history.log import StoredEntry
from hostler.engine import Engine
from tests.engine.fleet import SECOND
from tests.engine.random_runs import RandomRun

STEPS = 14
LIFE = 10  # steps for which a follower reads on
QUICK_SEEDS, LONG_SEEDS = 20, 1_000
PER_TEST = 10


class LogRun:
    """A leader that writes the log of a random run, and followers that read it."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.run = RandomRun(seed)
        self.log: list[StoredEntry] = []
        self.leader = self._begin()
        self.first = self._begin()  # follows the log from its beginning to its end
        self.followers: list[tuple[int, Follower]] = []  # with the step in which each began
        self.steps = 0

    def _begin(self) -> Follower:
        run = self.run
        return Follower(Engine(run.policies, seed=run.seed, rules=run.rules, cache_budget=run.cache_budget))

    def _write(self, kind: str, body: object, at_ns: int) -> None:
        seq = len(self.log) + 1
        self.log.append(StoredEntry(seq=seq, at_ns=at_ns, kind=kind, body=msgspec.json.encode(body)))

    def _read(self, follower: Follower) -> None:
        follower.read(self.log[follower.seq :])

    def _add_follower(self) -> None:
        self.followers.append((self.steps, Follower.restore(self.leader.checkpoint(0))))

    def step(self) -> None:
        """Write and decide one turn; everybody reads it. DivergedError if a follower decides otherwise."""
        rng, turn = self._rng, self.run.turn()
        known = rng.randint(0, len(turn.facts)) if rng.random() < 0.3 else len(turn.facts)
        for fact in turn.facts[:known]:
            self._write("fact", fact, max(0, turn.now + rng.choice((-3, -1, 0, 0, 2)) * SECOND))
        self._read(self.leader)
        self._add_follower()
        step, actions = self.leader.step(turn.now, turn.limit or 100)
        for fact in turn.facts[known:]:  # written by others before the step is
            self._write("fact", fact, turn.now)
        self._write("step", step, turn.now)
        self.leader.stepped(len(self.log))
        self._read(self.leader)
        self.steps += 1
        for _, follower in self.followers:
            self._read(follower)
        self._read(self.first)
        self.compare([each for born, each in self.followers if self.steps - born >= LIFE])
        self.followers = [(born, each) for born, each in self.followers if self.steps - born < LIFE]
        self._add_follower()
        self.run.notice(actions)

    def compare(self, followers: list[Follower]) -> None:
        """Compare the whole state with the leader's."""
        for follower in followers:
            self._read(follower)
            assert follower.checkpoint(0) == self.leader.checkpoint(0)
            assert follower.next_due() == self.leader.next_due()


def follow(seed: int) -> None:
    """Play a run; AssertionError with its seed."""
    run = LogRun(seed)
    try:
        for _ in range(STEPS):
            run.step()
        run.compare([run.first, *(follower for _, follower in run.followers)])
    except Exception as error:
        raise AssertionError(f"seed {seed}, step {run.steps}: {error}") from error


@pytest.mark.parametrize("first", range(0, QUICK_SEEDS, PER_TEST))
def test_followers_of_random_logs_decide_as_their_leader(first):
    for seed in range(first, first + PER_TEST):
        follow(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK_SEEDS, LONG_SEEDS, 4 * PER_TEST))
def test_followers_of_many_random_logs_decide_as_their_leader(first):
    for seed in range(first, min(first + 4 * PER_TEST, LONG_SEEDS)):
        follow(seed)
