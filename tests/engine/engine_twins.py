"""An engine that runs on, and twins of it that must answer the same: restored, forked, and following its log.

After every step of the warm engine three twins begin, and in every third turn one between two facts. Each is given the
same turns for the next ``LIFE`` steps. One more follower begins with the run and goes on to its end. Actions and the
time of the next step are compared after every step. At the end of its life a twin must write the same checkpoint, byte
by byte. At the end of a run every guest is explained. The first difference is reported with the seed of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random

import msgspec

from hostler.engine import Engine
from hostler.errors import HostlerError
from hostler.model import Action, Event
from tests.engine.random_runs import BUDGETS, RandomRun, RunStep

LIFE = 10  # steps for which a twin runs beside the warm engine
_BETWEEN = 3  # turns; in one of them a twin begins between its facts
_JSON = msgspec.json.Encoder()
_EVENT = msgspec.json.Decoder(Event)


class DifferenceError(AssertionError):
    """A twin answered otherwise than the warm engine."""


def apply_all(engine: Engine, facts: Iterable[Event]) -> None:
    """Give an engine facts; those that it rejects change nothing."""
    for fact in facts:
        with suppress(HostlerError):
            engine.apply(fact)


def take(engine: Engine, turn: RunStep) -> list[Action]:
    """Give an engine the facts of a turn and let it step."""
    apply_all(engine, turn.facts)
    return engine.step(turn.now, turn.limit)


def as_logged(turn: RunStep) -> RunStep:
    """Return a turn as it is read from a log: equal values, other objects."""
    return turn._replace(facts=tuple(_EVENT.decode(_JSON.encode(fact)) for fact in turn.facts))


def content(engine: Engine) -> dict[str, object]:
    """Return what a checkpoint says; codes of reasons, which only name them inside, are replaced by the reasons."""
    saved: dict[str, object] = msgspec.msgpack.decode(engine.checkpoint(), strict=False)
    saved.pop("reasons")
    saved["guests"] = [msgspec.structs.replace(record, counts=()) for record in engine.state.guests.values()]
    saved["decisions"] = [engine.decision(uid) for uid in engine.guests()]
    return saved


class EngineTwin:
    """A twin and what it is compared by."""

    def __init__(self, kind: str, born: int, engine: Engine) -> None:
        self.kind = kind
        self.name = f"{kind} after step {born}"
        self.born = born
        self.engine = engine
        self.follows_log = kind == "follower"

    def check(self, what: str, expected: object, found: object) -> None:
        """Report the first difference."""
        if expected != found:
            raise DifferenceError(f"the twin {self.name} differs in {what}: {first_difference(expected, found)}")


class TwinRun:
    """A warm engine, its run, and its twins."""

    def __init__(self, seed: int) -> None:
        self.run = RandomRun(seed)
        self.warm = self._engine()
        self.steps = 0
        self._places = Random(seed)  # not the run's: where a twin begins changes nothing
        self.twins = [EngineTwin("follower", 0, self._engine())]

    def _engine(self) -> Engine:
        run = self.run
        return Engine(run.policies, seed=run.seed, rules=run.rules, cache_budget=run.cache_budget)

    def step(self) -> None:
        """Let everybody take one turn, compare, and begin three twins."""
        turn = self.run.turn()
        self.steps += 1
        between, rest = self._begin_between(turn)
        actions = take(self.warm, rest)
        for twin in between:
            twin.check("actions", actions, take(twin.engine, rest))
        logged = as_logged(turn)
        for twin in self.twins:
            twin.check("actions", actions, take(twin.engine, logged if twin.follows_log else turn))
        due = self.warm.next_due()
        for twin in self.twins:
            if not twin.follows_log:  # it is not asked before its end: questions must not matter either
                twin.check("next_due", due, twin.engine.next_due())
        checkpoint = self.warm.checkpoint()
        ended = [twin for twin in self.twins if self.steps - twin.born >= LIFE and twin.born]
        self._compare(ended, checkpoint, due)
        self.twins = [twin for twin in self.twins if twin not in ended]
        other = BUDGETS[(self.run.seed + self.steps) % len(BUDGETS)]  # memory decides how fast an engine is, no more
        self.twins += [
            *between,
            EngineTwin("restored", self.steps, Engine.restore(checkpoint, cache_budget=other)),
            EngineTwin("forked", self.steps, self.warm.fork()),
            EngineTwin("follower", self.steps, Engine.restore(checkpoint, cache_budget=self.run.cache_budget)),
        ]
        self.run.notice(actions)

    def _begin_between(self, turn: RunStep) -> tuple[list[EngineTwin], RunStep]:
        """Give the warm engine the first facts of a turn; in some turns let a twin begin there. Return both rests.

        Services save checkpoints, and what-ifs fork, between facts too: no step has put things right by then.
        """
        if self.steps % _BETWEEN:
            return [], turn
        at = self._places.randint(0, len(turn.facts))
        apply_all(self.warm, turn.facts[:at])
        is_fork = self._places.random() < 0.5
        engine = self.warm.fork() if is_fork else Engine.restore(self.warm.checkpoint(), cache_budget=BUDGETS[0])
        twin = EngineTwin(f"between facts, {'forked' if is_fork else 'restored'}", self.steps, engine)
        return [twin], turn._replace(facts=turn.facts[at:])

    def _compare(self, twins: Sequence[EngineTwin], checkpoint: bytes, due: int | None) -> None:
        """Compare the whole state of twins whose life ends. Only if bytes differ, they are read."""
        for twin in twins:
            found = twin.engine.checkpoint()
            if found != checkpoint:
                twin.check("checkpoint", content(self.warm), content(twin.engine))
                twin.check("bytes of the checkpoint", checkpoint, found)
            twin.check("next_due", due, twin.engine.next_due())

    def end(self, *, ask_all: bool) -> None:
        """Compare all twins, and explain every guest: to the oldest twin of each kind, or to one of them in turns."""
        self._compare(self.twins, self.warm.checkpoint(), self.warm.next_due())
        oldest = {twin.kind: twin for twin in reversed(self.twins)}
        twins = [oldest[kind] for kind in sorted(oldest)]
        for at, uid in enumerate(self.warm.guests(), start=self.run.seed):
            explained = self.warm.explain(uid)
            for twin in twins if ask_all else [twins[at % len(twins)]]:
                twin.check("explain", explained, twin.engine.explain(uid))
                twin.check("decision", self.warm.decision(uid), twin.engine.decision(uid))


def play(seed: int, steps: int, *, ask_all: bool = True) -> None:
    """Play a run with its twins; AssertionError with the seed and the first difference."""
    run = TwinRun(seed)
    try:
        for _ in range(steps):
            run.step()
        run.end(ask_all=ask_all)
    except Exception as error:
        raise AssertionError(f"seed {seed}, step {run.steps}: {error}") from error


def first_difference(expected: object, found: object, place: str = "") -> str:
    """Return where two values first differ, and both values there."""
    if isinstance(expected, msgspec.Struct) and type(expected) is type(found):
        expected, found = msgspec.structs.asdict(expected), msgspec.structs.asdict(found)
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            if key not in expected or key not in found:
                return f"{place}.{key} is only in one of both"
            if expected[key] != found[key]:
                return first_difference(expected[key], found[key], f"{place}.{key}")
        return f"{place} has another order"
    if isinstance(expected, (list, tuple)) and isinstance(found, (list, tuple)):
        for at, (one, two) in enumerate(zip(expected, found, strict=False)):
            if one != two:
                return first_difference(one, two, f"{place}[{at}]")
        return f"{place} has {len(expected)} and {len(found)} entries: {expected!r:.300} / {found!r:.300}"
    return f"{place} is {expected!r:.400} in the warm engine and {found!r:.400} in the twin"
