"""What ``hostler explain`` does: go back to the moment before a guest's decision, and ask the engine there.

The run is made twice: once to the end on a fork, to learn the decision and its number, and once up to just before
that number, where every host's verdict is what the decision saw. A journal is replayed in the same way.
"""

from __future__ import annotations

import msgspec

from hostler.cli.inputs import Inputs
from hostler.cli.kernels import Kernels
from hostler.cli.place import decision_as_data
from hostler.cli.plugins import registry_for
from hostler.cli.runs import arrive, decide, find_guest, open_engine
from hostler.engine import Engine
from hostler.engine.journal import Journal, replay
from hostler.errors import JournalError
from hostler.model import Decision, Explanation, Guest, HostVerdict, Policy

__all__ = ["Explained", "as_data", "explain_from_files", "explain_from_journal"]

AT_ARRIVAL = "the input, before anything is placed; its own booking set aside"


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A guest, the decision about it, and every host's verdict at that moment."""

    guest: Guest
    explanation: Explanation
    policy: Policy | None = None  # that decided, as it was then
    was_bound: bool = False  # by a fact: no decision of ours put it there

    @property
    def decision(self) -> Decision:
        """Return the decision."""
        return self.explanation.decision


def explain_from_files(inputs: Inputs, kernels: Kernels, wanted: str, *, seed: int = 0) -> Explained:
    """Explain a guest of the input files."""
    guest = find_guest(inputs.fleet.guests, wanted)
    engine = open_engine(inputs, kernels, seed=seed)
    arrive(engine, inputs.fleet.hosts, inputs.fleet.guests)
    if guest.host:
        explanation = msgspec.structs.replace(engine.explain(guest.uid), as_of=AT_ARRIVAL)
        return Explained(guest=guest, explanation=explanation, was_bound=True)
    finished = engine.fork()
    for _ in decide(finished):
        pass
    decision = finished.decision(guest.uid)
    for _ in decide(engine, before=decision.seq):
        pass
    return _at_decision(engine, guest, decision)


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
    verdicts = tuple(_without_minus_zero(verdict) for verdict in explanation.verdicts)
    rest: dict[str, object] = msgspec.to_builtins(msgspec.structs.replace(explanation, verdicts=verdicts))
    return {
        **data,
        **rest,
        "decision": decision_as_data(explained.decision),
        "verdicts": rest.get("verdicts", []),
        "near_misses": list(explanation.near_misses),
        "cure": rest.get("cure"),
        "wakes": list(explanation.wakes),
    }


def _without_minus_zero(verdict: HostVerdict) -> HostVerdict:
    """Return the verdict without -0.0, which a negative weight makes of 0."""
    replace = msgspec.structs.replace
    scores = tuple(replace(score, raw=score.raw + 0, weighted=score.weighted + 0) for score in verdict.scores)
    return replace(verdict, scores=scores, total=None if verdict.total is None else verdict.total + 0)


def _at_decision(engine: Engine, guest: Guest, decision: Decision) -> Explained:
    """Explain as the engine stands, and attach the decision that came of it."""
    explanation = engine.explain(decision.uid)
    explanation = msgspec.structs.replace(explanation, decision=decision, as_of=f"decision {decision.seq}")
    policy = next((one for one in engine.state.profiles.policies if one.name == decision.policy), None)
    return Explained(guest=guest, explanation=explanation, policy=policy)
