"""What ``hostler explain`` does: go back to the moment before a guest's decision, and ask the engine there.

The run is made twice: once to the end on a fork, to learn the decision and the step that made it, and once up to just
before it, where every host's verdict is what the decision saw. A journal is replayed in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.cli.arrivals import arrive_fleet
from hostler.cli.inputs import Inputs, with_preemption
from hostler.cli.kernels import Kernels
from hostler.cli.place import decision_as_data
from hostler.cli.plugins import registry_for
from hostler.cli.runs import Run, find_guest, open_engine
from hostler.engine import Engine
from hostler.engine.journal import Journal, replay
from hostler.errors import JournalError
from hostler.manifests.messages import scheduler_message
from hostler.model import (
    Action,
    Ask,
    Decision,
    Evict,
    EvictionAdvice,
    Explanation,
    GangAdvice,
    Guest,
    HostVerdict,
    Nominate,
    Policy,
    PolicyChanged,
)

__all__ = ["Explained", "as_data", "explain_from_files", "explain_from_journal"]

AT_ARRIVAL = "the input, before anything is placed; its own booking set aside"


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A guest, the decision about it, and every host's verdict at that moment."""

    guest: Guest
    explanation: Explanation
    policy: Policy | None = None  # that decided, as it was then
    was_bound: bool = False  # by a fact: no decision of ours put it there
    message: str | None = None  # of a pod: what kube-scheduler would write; empty where it fits somewhere

    @property
    def decision(self) -> Decision:
        """Return the decision."""
        return self.explanation.decision


def explain_from_files(inputs: Inputs, kernels: Kernels, wanted: str, *, seed: int = 0) -> Explained:
    """Explain a guest of the input files; nobody is evicted, but whom the policy would evict is told."""
    guest = find_guest(inputs.fleet.guests, wanted)
    policies = with_preemption(inputs.policies, is_on=False)
    engine = open_engine(msgspec.structs.replace(inputs, policies=policies), kernels, seed=seed)
    arrive_fleet(engine, inputs.fleet)
    if guest.host:
        engine = _evicting(engine, inputs.policies)
        explanation = msgspec.structs.replace(engine.explain(guest.uid), as_of=AT_ARRIVAL)
        explained = Explained(guest=guest, explanation=explanation, was_bound=True)
    else:
        finished = engine.fork()
        step, seq = _find_decision(finished, guest)
        decision = finished.decision(guest.uid)
        engine = _just_before(engine, step, seq) if seq else finished
        explained = _at_decision(_evicting(engine, inputs.policies), guest, decision)
    if guest.uid not in inputs.pods:
        return explained
    message = "" if guest.host else scheduler_message(explained.explanation, guest.spec)
    return msgspec.structs.replace(explained, message=message)


def explain_from_journal(journal: Journal, kernels: Kernels, wanted: str) -> Explained:
    """Explain a guest of a recorded run by its last decision."""
    registry = registry_for(journal.header.policies)
    kernels.announce()
    ended = replay(journal, registry=registry)
    if ended.difference is not None:
        raise JournalError(
            f"the journal does not replay: it differs at entry {ended.difference.entry}",
            hint="'hostler journal replay' shows both sides",
        )
    engine = ended.engine
    guest = find_guest([engine.state.guests[uid].guest for uid in engine.guests()], wanted)
    decision = engine.decision(guest.uid)
    if not decision.seq:
        return Explained(guest=guest, explanation=engine.explain(guest.uid), was_bound=True)
    before = replay(journal, registry=registry, until=decision.seq).engine
    return _at_decision(before, guest, decision)


def as_data(explained: Explained) -> dict[str, object]:
    """Return the explanation object with its feasible hosts and weighted scores at the top."""
    explanation = explained.explanation
    fitting = [verdict for verdict in explanation.verdicts if verdict.fits]
    data: dict[str, object] = {
        "guest": explained.decision.guest,
        "uid": explained.decision.uid,
        "chosen": explained.decision.host or None,
        "feasible": [verdict.host for verdict in fitting],
        "scores": {verdict.host: {s.plugin: s.weighted + 0 for s in verdict.scores} for verdict in fitting},
    }
    if explained.message is not None:
        data["message"] = explained.message or None
    verdicts = tuple(_without_minus_zero(verdict) for verdict in explanation.verdicts)
    rest: dict[str, object] = msgspec.to_builtins(msgspec.structs.replace(explanation, verdicts=verdicts))
    return {
        **data,
        **rest,
        "decision": decision_as_data(explained.decision),
        "verdicts": rest.get("verdicts", []),
        "near_misses": list(explanation.near_misses),
        "cure": rest.get("cure"),
        "eviction": _whole(explanation.eviction),
        "gang": _whole(explanation.gang),
        "wakes": list(explanation.wakes),
    }


def _whole(advice: EvictionAdvice | GangAdvice | None) -> dict[str, object] | None:
    """Return advice with all its keys, also those that are empty."""
    if advice is None:
        return None
    return {name: msgspec.to_builtins(getattr(advice, name)) for name in advice.__struct_fields__}


def _without_minus_zero(verdict: HostVerdict) -> HostVerdict:
    """Return the verdict without -0.0, which a negative weight makes of 0."""
    replace = msgspec.structs.replace
    scores = tuple(replace(score, raw=score.raw + 0, weighted=score.weighted + 0) for score in verdict.scores)
    return replace(verdict, scores=scores, total=None if verdict.total is None else verdict.total + 0)


def _find_decision(engine: Engine, guest: Guest) -> tuple[int, int]:
    """Run to the end; return which step decided about a guest last, and the decision's number.

    Members of a gang are decided together: the first one's number counts. It is 0 where nothing was ever decided.
    """
    run, number, found, first = Run(engine), 0, 0, 0
    is_on = True
    while is_on:
        actions = run.step()
        seq = next((a.seq for a in reversed(actions) if a.uid == guest.uid and _is_decision(a)), 0)
        if seq:
            found, first = number, _first_of_gang(engine, actions, seq, guest.gang)
        number += 1
        is_on = run.follow_up()
    return found, first


def _is_decision(action: Action) -> bool:
    return not isinstance(action, Nominate | Evict | Ask)


def _first_of_gang(engine: Engine, actions: Sequence[Action], seq: int, gang: str) -> int:
    """Return the number of the first decision that was made together with this one."""
    if not gang:
        return seq
    members = {a.seq for a in actions if _is_decision(a) and engine.state.guests[a.uid].guest.gang == gang}
    while seq - 1 in members:
        seq -= 1
    return seq


def _just_before(engine: Engine, steps: int, seq: int) -> Engine:
    """Run so many steps and then a part of one, up to decision ``seq``, which is not made."""
    run = Run(engine)
    for _ in range(steps):
        run.step()
        run.follow_up()

    def after(entries: int) -> Engine:
        tried = engine.fork()
        tried.step(run.now, entries)
        return tried

    # A step is told how many entries of the queue to take: nearly always one for each decision.
    wanted = seq - 1
    guessed = after(min(max(wanted - engine.state.decisions, 0), run.limit))
    if guessed.state.decisions == wanted:
        return guessed
    fewest, most, best = 0, run.limit, guessed
    while fewest <= most:  # a gang is one entry with many decisions, a question to outside one without
        middle = (fewest + most) // 2
        tried = after(middle)
        if tried.state.decisions <= wanted:
            fewest, best = middle + 1, tried
        else:
            most = middle - 1
    return best


def _evicting(engine: Engine, policies: Sequence[Policy]) -> Engine:
    """Give the engine the policies as they were declared: an explanation tells whom they would evict."""
    if engine.policies != tuple(policies):
        engine.apply(PolicyChanged(policies=tuple(policies)))
    return engine


def _at_decision(engine: Engine, guest: Guest, decision: Decision) -> Explained:
    """Explain as the engine stands, and attach the decision that came of it."""
    explanation = engine.explain(decision.uid)
    as_of = f"decision {decision.seq}" if decision.seq else explanation.as_of
    explanation = msgspec.structs.replace(explanation, decision=decision, as_of=as_of)
    policy = next((one for one in engine.state.profiles.policies if one.name == decision.policy), None)
    return Explained(guest=guest, explanation=explanation, policy=policy)
