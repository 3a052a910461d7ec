"""Explanations of decisions at the moment when they were made.

A run is made twice: once to the end on a fork, to find the decision and its step; and once up to just before it, so
that every host's verdict is what the decision saw. A journal is replayed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from hostler.engine import Engine, Registry
from hostler.engine.journals.journal import Journal, StepEntry, replay
from hostler.errors import JournalError
from hostler.manifests.scheduler_message import gang_message, scheduler_message
from hostler.model import (
    Action,
    Ask,
    Decision,
    Evict,
    Explanation,
    Guest,
    Nominate,
    Policy,
    PolicyChanged,
)
from hostler.queries.inputs import PlacementInput, apply_input, find_guest, open_engine, with_preemption
from hostler.queries.journal_guests import GuestDeparture, departures
from hostler.queries.preemptions import Eviction, Preemptions
from hostler.queries.runs import ChunkCarrier, decide_all, run_until_idle

__all__ = ["DescribeWait", "GuestExplanation", "explain_guest", "explain_recorded_guest"]

AT_ARRIVAL = "the input, before anything is placed; its own booking set aside"

DescribeWait: TypeAlias = Callable[[Engine, Guest], str]  # why a guest waits, when the run has ended; else nothing


class GuestExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A guest, the decision about it, and every host's verdict at that moment."""

    guest: Guest
    explanation: Explanation
    policy: Policy | None = None  # that decided, as it was then
    was_bound: bool = False  # by a fact: no decision of ours put it there
    eviction: Eviction | None = None  # what became of it later in the run
    departure: GuestDeparture | None = None  # of a guest that is gone by the end of a journal
    message: str | None = None  # of a pod: what kube-scheduler would write; empty if it fits somewhere
    bound_to: str = ""  # where another scheduler put it, whatever the decision was

    @property
    def decision(self) -> Decision:
        """Return the decision."""
        return self.explanation.decision


def explain_guest(
    inputs: PlacementInput,
    wanted: str,
    evicting: Sequence[Policy] = (),
    *,
    preempt: bool = False,
    describe_wait: DescribeWait | None = None,
) -> GuestExplanation:
    """Explain a guest of the input, and the victims that the policies ``evicting`` would choose for it.

    Those are the input's own policies by default. With ``preempt`` the run itself evicts by them. ``describe_wait``
    returns a front's own text on why a pod still waits at the end of the run, if it has one.
    """
    guest = find_guest(inputs.guests, wanted)
    evicting = tuple(evicting) or inputs.policies
    policies = evicting if preempt else with_preemption(inputs.policies, is_on=False)
    inputs = msgspec.structs.replace(inputs, policies=policies)
    engine = open_engine(inputs)
    apply_input(engine, inputs)
    found = (
        _find_decision(engine.fork(), inputs, guest, describe_wait) if preempt or not guest.host else _FoundDecision()
    )
    if guest.host:
        engine = _evicting(engine, evicting)
        explanation = msgspec.structs.replace(engine.explain(guest.uid), as_of=AT_ARRIVAL)
        explained = GuestExplanation(guest=guest, explanation=explanation, was_bound=True)
    else:
        assert found.decision is not None
        engine = _just_before(engine, found.step, found.seq) if found.seq else _to_the_end(engine)
        explained = _at_decision(_evicting(engine, evicting), guest, found.decision)
    explained = msgspec.structs.replace(explained, eviction=found.eviction)
    if guest.uid not in inputs.pods:
        return explained
    message = "" if guest.host else scheduler_message(explained.explanation, guest.spec)
    if found.message:
        message = found.message
    elif not message and not explained.decision.host:
        message = gang_message(explained.decision)
    return msgspec.structs.replace(explained, message=message)


def explain_recorded_guest(journal: Journal, wanted: str, registry: Registry) -> GuestExplanation:
    """Explain a guest of a recorded run by its last decision, even if it has left by the end."""
    ended = replay(journal, registry=registry)
    if ended.difference is not None:
        raise JournalError(
            f"the journal does not replay: it differs at entry {ended.difference.entry}",
            hint="'hostler journal replay' shows both sides",
        )
    engine = ended.engine
    present = [record.guest for record in engine.view.records.values()]
    gone = departures(journal, present, registry)
    guest = find_guest(_guests_named(wanted, present, gone), wanted)
    if guest.uid in gone:
        return _explain_departed(journal, registry, gone[guest.uid])
    return _explain_recorded(journal, registry, engine, guest)


def _explain_recorded(journal: Journal, registry: Registry, engine: Engine, guest: Guest) -> GuestExplanation:
    """Explain a guest that the engine at the end of a journal knows."""
    decision = engine.decision(guest.uid)
    if not decision.seq:
        return GuestExplanation(guest=guest, explanation=engine.explain(guest.uid), was_bound=bool(decision.host))
    before = replay(journal, registry=registry, until=decision.seq).engine
    decided = _decided_host(journal, decision)
    if not decision.host or decision.host == decided:
        return _at_decision(before, guest, decision)
    explained = _at_decision(before, guest, msgspec.structs.replace(decision, host=decided))
    return msgspec.structs.replace(explained, bound_to=decision.host)


def _decided_host(journal: Journal, decision: Decision) -> str:
    """Return the host that a decision chose, if any. If another host bound the guest later, no other trace remains."""
    for entry in reversed(journal.entries):
        for action in entry.actions if isinstance(entry, StepEntry) else ():
            if (action.uid, action.seq) == (decision.uid, decision.seq) and _is_decision(action):
                return getattr(action, "host", "")
    return decision.host  # it was made before the journal begins


def _explain_departed(journal: Journal, registry: Registry, gone: GuestDeparture) -> GuestExplanation:
    """Explain a guest that left, by the state just before."""
    until_then = msgspec.structs.replace(journal, entries=journal.entries[: gone.entry - 1])
    engine = replay(until_then, registry=registry).engine
    guest = engine.view.guest(gone.guest.uid)
    explained = _explain_recorded(until_then, registry, engine, guest)
    return msgspec.structs.replace(explained, departure=gone)


def _guests_named(wanted: str, present: Sequence[Guest], gone: Mapping[str, GuestDeparture]) -> list[Guest]:
    """Return the guests to search by name: present ones, and for each other name the one that left last.

    Names are reused: a name means the newest guest that had it. A uid finds any guest.
    """
    names = {(guest.spec.namespace, guest.name) for guest in present}
    latest = {(one.guest.spec.namespace, one.guest.name): one.guest for one in gone.values()}
    left = [guest for key, guest in latest.items() if key not in names]
    return [*present, *left, *(one.guest for one in gone.values() if one.guest.uid == wanted)]


class _FoundDecision(NamedTuple):
    """The last decision about a guest in a run, the step that made it, and the guest's eviction if there was one.

    Members of a gang are decided together: ``seq`` is the number of the first one. It is 0 if nothing was decided.
    """

    step: int = 0
    seq: int = 0
    decision: Decision | None = None
    eviction: Eviction | None = None
    message: str = ""  # of a pod that waits with its gang


def _find_decision(
    engine: Engine, inputs: PlacementInput, guest: Guest, describe_wait: DescribeWait | None
) -> _FoundDecision:
    """Run to the end and find the decision about a guest."""
    number, found = 0, _FoundDecision()
    preemptions = Preemptions(engine, inputs.guests, inputs.tenancy.budgets)

    def observe(actions: Sequence[Action]) -> None:
        nonlocal number, found
        for action in actions:
            preemptions.note(action)
        seq = next((a.seq for a in reversed(actions) if a.uid == guest.uid and _is_decision(a)), 0)
        if seq:
            first = _first_of_gang(engine, actions, seq, guest.gang)
            found = _FoundDecision(number, first, engine.decision(guest.uid))
        number += 1

    decide_all(engine, observe=observe)
    if found.decision is None and guest.uid in engine.view.records:
        found = found._replace(decision=engine.decision(guest.uid))
    eviction = next((one for one in preemptions.evicted if one.uid == guest.uid), None)
    return found._replace(eviction=eviction, message=describe_wait(engine, guest) if describe_wait else "")


def _to_the_end(engine: Engine) -> Engine:
    """Run all steps."""
    decide_all(engine)
    return engine


def _is_decision(action: Action) -> bool:
    return not isinstance(action, Nominate | Evict | Ask)


def _first_of_gang(engine: Engine, actions: Sequence[Action], seq: int, gang: str) -> int:
    """Return the number of the first decision that was made together with this one."""
    if not gang:
        return seq
    members = {a.seq for a in actions if _is_decision(a) and engine.view.guest(a.uid).gang == gang}
    while seq - 1 in members:
        seq -= 1
    return seq


def _just_before(engine: Engine, steps: int, seq: int) -> Engine:
    """Run so many steps and then a part of one, up to decision ``seq``, which is not made."""
    run = _FirstSteps(engine, steps)
    now = run_until_idle(engine, engine.now, run) if steps else engine.now
    assert now is not None  # the run continues: a decision is still to come
    most_entries = run.chunk_left

    def after(entries: int) -> Engine:
        tried = engine.fork()
        tried.step(now, entries)
        return tried

    # A step takes a given number of queue entries, nearly always one for each decision.
    wanted = seq - 1
    guessed = after(min(max(wanted - engine.view.decision_count, 0), most_entries))
    if guessed.view.decision_count == wanted:
        return guessed
    fewest, most, best = 0, most_entries, guessed
    while fewest <= most:  # a gang is one entry with many decisions, a question to outside one without
        middle = (fewest + most) // 2
        tried = after(middle)
        if tried.view.decision_count <= wanted:
            fewest, best = middle + 1, tried
        else:
            most = middle - 1
    return best


class _FirstSteps(ChunkCarrier):
    """Stops a run after some steps."""

    def __init__(self, engine: Engine, steps: int) -> None:
        super().__init__(engine)
        self._steps = steps

    def carry_out(self, actions: list[Action], now: int) -> bool:
        self._steps -= 1
        return super().carry_out(actions, now) or not self._steps


def _evicting(engine: Engine, policies: Sequence[Policy]) -> Engine:
    """Let the engine's policies evict others, so that the explanation names victims."""
    if engine.policies != tuple(policies):
        engine.apply(PolicyChanged(policies=tuple(policies)))
    return engine


def _at_decision(engine: Engine, guest: Guest, decision: Decision) -> GuestExplanation:
    """Explain the current state of the engine, and attach the decision that followed."""
    explanation = engine.explain(decision.uid)
    as_of = f"decision {decision.seq}" if decision.seq else explanation.as_of
    explanation = msgspec.structs.replace(explanation, decision=decision, as_of=as_of)
    policy = next((one for one in engine.policies if one.name == decision.policy), None)
    return GuestExplanation(guest=guest, explanation=explanation, policy=policy)
