"""What ``hostler explain`` does: go back to the moment before a guest's decision, and ask the engine there.

The run is made twice: once to the end on a fork, to learn the decision and the step that made it, and once up to just
before it, where every host's verdict is what the decision saw. A journal is replayed in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from hostler.cli.arrivals import arrive_fleet
from hostler.cli.inputs import Inputs, with_preemption
from hostler.cli.journal_guests import Gone, guests_gone
from hostler.cli.kernels import Kernels
from hostler.cli.plugins import registry_for
from hostler.cli.preemptions import Eviction, Preemptions
from hostler.cli.runs import Run, decide, find_guest, open_engine
from hostler.engine import Engine, Registry
from hostler.engine.journal import Journal, Stepped, replay
from hostler.errors import JournalError
from hostler.kube.live.waiting import member_messages
from hostler.manifests.messages import gang_message, scheduler_message
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
from hostler.model.plain_data import explanation_as_data

__all__ = ["Explained", "as_data", "explain_from_files", "explain_from_journal"]

AT_ARRIVAL = "the input, before anything is placed; its own booking set aside"


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A guest, the decision about it, and every host's verdict at that moment."""

    guest: Guest
    explanation: Explanation
    policy: Policy | None = None  # that decided, as it was then
    was_bound: bool = False  # by a fact: no decision of ours put it there
    eviction: Eviction | None = None  # what became of it later in the run
    left: str = ""  # of a guest that is gone by the end of a journal: when that was
    message: str | None = None  # of a pod: what kube-scheduler would write; empty where it fits somewhere
    said: str = ""  # what the pod's own scheduler wrote, where that is something else
    bound_to: str = ""  # where another scheduler put it, whatever the decision was
    is_of_files: bool = False  # 'hostler place' could do it
    owner: str = "tenant"  # what those are called there whose quotas count
    now: str = ""  # how a VM is, in words that go on after its name, where more is known than that it runs
    hint: str = ""  # what somebody can do about that
    made_way: str = ""  # of a VM that waits since it was stopped for another: why
    if_started: bool = False  # of a VM that is stopped: what is told is how it would be if it were started now

    @property
    def decision(self) -> Decision:
        """Return the decision."""
        return self.explanation.decision


def explain_from_files(
    inputs: Inputs,
    kernels: Kernels,
    wanted: str,
    evicting: Sequence[Policy],
    *,
    seed: int = 0,
    preempt: bool = False,
    is_live: bool = False,
) -> Explained:
    """Explain a guest of the input files; whom the policies ``evicting`` would evict is told, also without doing it.

    Where the input is a live cluster, a member of a gang waits in the words that the scheduler writes there.
    """
    guest = find_guest(inputs.fleet.guests, wanted)
    policies = tuple(evicting) if preempt else with_preemption(inputs.policies, is_on=False)
    engine = open_engine(msgspec.structs.replace(inputs, policies=policies), kernels, seed=seed)
    arrive_fleet(engine, inputs.fleet)
    found = _find_decision(engine.fork(), inputs, guest) if preempt or not guest.host else _Found()
    if guest.host:
        engine = _evicting(engine, evicting)
        explanation = msgspec.structs.replace(engine.explain(guest.uid), as_of=AT_ARRIVAL)
        explained = Explained(guest=guest, explanation=explanation, was_bound=True)
    else:
        assert found.decision is not None
        engine = _just_before(engine, found.step, found.seq) if found.seq else _to_the_end(engine)
        explained = _at_decision(_evicting(engine, evicting), guest, found.decision)
    explained = msgspec.structs.replace(explained, eviction=found.eviction, is_of_files=not is_live)
    if guest.uid not in inputs.pods:
        return explained
    message = "" if guest.host else scheduler_message(explained.explanation, guest.spec)
    if is_live and found.message:
        message = found.message
    elif not message and not explained.decision.host:
        message = gang_message(explained.decision)
    return msgspec.structs.replace(explained, message=message)


def explain_from_journal(journal: Journal, kernels: Kernels, wanted: str) -> Explained:
    """Explain a guest of a recorded run by its last decision, also one that has left by its end."""
    registry = registry_for(journal.header.policies)
    kernels.announce()
    ended = replay(journal, registry=registry)
    if ended.difference is not None:
        raise JournalError(
            f"the journal does not replay: it differs at entry {ended.difference.entry}",
            hint="'hostler journal replay' shows both sides",
        )
    engine = ended.engine
    present = [record.guest for record in engine.view.records.values()]
    gone = guests_gone(journal, present, registry)
    guest = find_guest(_named(wanted, present, gone), wanted)
    if guest.uid in gone:
        return _explain_gone(journal, registry, gone[guest.uid])
    return _explain_recorded(journal, registry, engine, guest)


def _explain_recorded(journal: Journal, registry: Registry, engine: Engine, guest: Guest) -> Explained:
    """Explain a guest that the engine at the end of a journal knows."""
    decision = engine.decision(guest.uid)
    if not decision.seq:
        return Explained(guest=guest, explanation=engine.explain(guest.uid), was_bound=bool(decision.host))
    before = replay(journal, registry=registry, until=decision.seq).engine
    decided = _decided_host(journal, decision)
    if not decision.host or decision.host == decided:
        return _at_decision(before, guest, decision)
    explained = _at_decision(before, guest, msgspec.structs.replace(decision, host=decided))
    return msgspec.structs.replace(explained, bound_to=decision.host)


def _decided_host(journal: Journal, decision: Decision) -> str:
    """Return the host that a decision chose, if any; a fact of a later bind by somebody else leaves no other trace."""
    for entry in reversed(journal.entries):
        for action in entry.actions if isinstance(entry, Stepped) else ():
            if (action.uid, action.seq) == (decision.uid, decision.seq) and _is_decision(action):
                return getattr(action, "host", "")
    return decision.host  # it was made before the journal begins


def _explain_gone(journal: Journal, registry: Registry, gone: Gone) -> Explained:
    """Explain a guest that left, by what was known of it just before."""
    until_then = msgspec.structs.replace(journal, entries=journal.entries[: gone.entry - 1])
    engine = replay(until_then, registry=registry).engine
    guest = engine.view.guest(gone.guest.uid)
    explained = _explain_recorded(until_then, registry, engine, guest)
    return msgspec.structs.replace(explained, left=gone.text)


def _named(wanted: str, present: Sequence[Guest], gone: Mapping[str, Gone]) -> list[Guest]:
    """Return the guests to look among: those that are there, and of each other name the one that left last.

    Names are used again and again; whoever asks by one means the newest. A uid finds any.
    """
    names = {(guest.spec.namespace, guest.name) for guest in present}
    latest = {(one.guest.spec.namespace, one.guest.name): one.guest for one in gone.values()}
    left = [guest for key, guest in latest.items() if key not in names]
    return [*present, *left, *(one.guest for one in gone.values() if one.guest.uid == wanted)]


def as_data(explained: Explained) -> dict[str, object]:
    """Return the explanation object as it is printed."""
    namespace = explained.guest.spec.namespace
    data = explanation_as_data(explained.explanation, namespace, explained.message, explained.eviction)
    data |= {"bound_to": explained.bound_to} if explained.bound_to else {}
    return data | ({"scheduler_says": explained.said} if explained.said else {})


class _Found(NamedTuple):
    """The last decision about a guest in a whole run, the step that made it, and its eviction if there was one.

    Members of a gang are decided together: ``seq`` is the first one's number. It is 0 where nothing was ever decided.
    """

    step: int = 0
    seq: int = 0
    decision: Decision | None = None
    eviction: Eviction | None = None
    message: str = ""  # of a pod that waits with its gang


def _find_decision(engine: Engine, inputs: Inputs, guest: Guest) -> _Found:
    """Run to the end and look for what was decided about a guest."""
    run, number, found = Run(engine), 0, _Found()
    preemptions = Preemptions(engine, inputs.fleet)
    is_on = True
    while is_on:
        actions = run.step()
        for action in actions:
            preemptions.note(action)
        seq = next((a.seq for a in reversed(actions) if a.uid == guest.uid and _is_decision(a)), 0)
        if seq:
            first = _first_of_gang(engine, actions, seq, guest.gang)
            found = _Found(number, first, engine.decision(guest.uid))
        number += 1
        is_on = run.follow_up()
    if found.decision is None and guest.uid in engine.view.records:
        found = found._replace(decision=engine.decision(guest.uid))
    eviction = next((one for one in preemptions.evicted if one.uid == guest.uid), None)
    return found._replace(eviction=eviction, message=member_messages(engine, guest.gang).get(guest.uid, ""))


def _to_the_end(engine: Engine) -> Engine:
    """Run all steps."""
    for _ in decide(engine):
        pass
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
    guessed = after(min(max(wanted - engine.view.decision_count, 0), run.limit))
    if guessed.view.decision_count == wanted:
        return guessed
    fewest, most, best = 0, run.limit, guessed
    while fewest <= most:  # a gang is one entry with many decisions, a question to outside one without
        middle = (fewest + most) // 2
        tried = after(middle)
        if tried.view.decision_count <= wanted:
            fewest, best = middle + 1, tried
        else:
            most = middle - 1
    return best


def _evicting(engine: Engine, policies: Sequence[Policy]) -> Engine:
    """Let the engine's policies evict others: an explanation tells whom."""
    if engine.policies != tuple(policies):
        engine.apply(PolicyChanged(policies=tuple(policies)))
    return engine


def _at_decision(engine: Engine, guest: Guest, decision: Decision) -> Explained:
    """Explain as the engine stands, and attach the decision that came of it."""
    explanation = engine.explain(decision.uid)
    as_of = f"decision {decision.seq}" if decision.seq else explanation.as_of
    explanation = msgspec.structs.replace(explanation, decision=decision, as_of=as_of)
    policy = next((one for one in engine.policies if one.name == decision.policy), None)
    return Explained(guest=guest, explanation=explanation, policy=policy)
