"""What-ifs on a fork of the engine, which is discarded: nothing is written.

``answer_plan`` and ``answer_candidates`` are questions for ``control.books``: they return the answer as JSON, because
it may come from another process and be large.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from hostler.control.books.waiting_vms import QUOTA_FULL, why_held
from hostler.control.schemas import Candidates, Plan, PlanAsked, PlanHost, Planned, Victim
from hostler.control.services.explanations.vm_explanations import explain_guest
from hostler.control.services.hosts.unavailable_hosts import (
    UnavailableHosts,
    count_unavailable_reasons,
    with_hosts_left_out,
)
from hostler.control.services.tenancy.projects import with_strategies
from hostler.control.services.visible_names import MayRead, hide_names
from hostler.control.settings import check_strategy
from hostler.control.store import Connection
from hostler.control.vms import desired_state
from hostler.control.vms.guests import vm_of_uid
from hostler.control.vms.reasons import to_user_counts
from hostler.control.vms.spec import HOST_NAME, VmSpec
from hostler.engine import BUILT_IN, Engine
from hostler.errors import Cause, InputError
from hostler.model import (
    CPU,
    MEMORY,
    STORAGE,
    Defer,
    Event,
    GuestArrived,
    Host,
    HostChanged,
    HostJoined,
    HostVerdict,
    Labels,
    Move,
    amounts,
    labels,
    parse_resource,
)
from hostler.model.plain_data import without_minus_zero
from hostler.queries import TriedEviction, WhatIfOutcome, try_at_once

__all__ = [
    "CandidateHosts",
    "Question",
    "answer_candidates",
    "answer_plan",
    "candidates",
    "facts_of",
    "guest_facts",
    "plan",
    "with_defaults",
]  # fmt: skip

_MOST = 2000


def guest_facts(
    identity: str, project: str, name: str, spec: VmSpec, strategies: Collection[str] = BUILT_IN
) -> tuple[Event, ...]:
    """Return the facts of a new VM for the engine; InputError."""
    if spec.strategy:
        check_strategy(spec.strategy, strategies)
    return desired_state.create(identity, project, name, spec).facts


def answer_plan(
    engine: Engine, seq: int, *, asked: PlanAsked, may_read: MayRead, unavailable: UnavailableHosts | None = None
) -> bytes:
    """Return a Plan as JSON; InputError."""
    return msgspec.json.encode(
        Plan(seq=seq, placements=plan(engine, asked, facts_of(asked, _strategies(engine)), may_read, unavailable))
    )


def answer_candidates(
    engine: Engine,
    seq: int,
    *,
    uid: str,
    facts: tuple[Event, ...],
    may_read: MayRead,
    unavailable: UnavailableHosts | None = None,
    changed_hosts: PlanAsked | None = None,
) -> bytes:
    """Return Candidates as JSON, on hosts as they would be with the changes of a plan; InputError."""
    if changed_hosts is not None:
        plan(engine, msgspec.structs.replace(changed_hosts, vms=[]), (), may_read)  # others who wait come first
        if unavailable is not None:
            unavailable = with_hosts_left_out(unavailable, changed_hosts.without_hosts)
    found = candidates(engine, facts, uid, may_read, unavailable)
    return msgspec.json.encode(
        Candidates(seq=seq, hosts=found.hosts, chosen=found.chosen, evictions=found.evictions, why=found.why)
    )


class Question(msgspec.Struct, frozen=True):
    """A VM of a what-if, with its facts for the engine."""

    uid: str
    project: str
    name: str
    facts: tuple[Event, ...]


def with_defaults(connection: Connection, asked: PlanAsked) -> PlanAsked:
    """Return a what-if with the strategies of its projects for VMs that name none."""
    specs = with_strategies(connection, [(one.project, one.spec) for one in asked.vms])
    vms = [msgspec.structs.replace(one, spec=spec) for one, spec in zip(asked.vms, specs, strict=True)]
    return msgspec.structs.replace(asked, vms=vms)


def _strategies(engine: Engine) -> list[str]:
    return [policy.name for policy in engine.policies]


def facts_of(asked: PlanAsked, strategies: Collection[str] = BUILT_IN) -> list[Question]:
    """Return the VMs of a what-if; InputError."""
    if sum(one.count for one in asked.vms) > _MOST or sum(one.count for one in asked.hosts) > _MOST:
        raise InputError("more than can be planned at once", hint=f"at most {_MOST} VMs and {_MOST} hosts")
    if any(HOST_NAME in one.labels for one in asked.hosts):
        raise InputError(f"hosts: {HOST_NAME!r} is the name that a host has anyway", hint="leave that label out")
    found: list[Question] = []
    for at, one in enumerate(asked.vms):
        first = guest_facts(f"plan-{at}-0", one.project, one.name, one.spec, strategies)
        for number in range(one.count):
            uid = f"plan-{at}-{number}"
            name = one.name if one.count == 1 else f"{one.name}-{number}"
            found.append(Question(uid, one.project, name, tuple(_with_name(fact, uid, name) for fact in first)))
    return found


def _with_name(fact: Event, uid: str, name: str) -> Event:
    """Return the fact of an equal VM: parsing a spec costs more than everything else."""
    if not isinstance(fact, GuestArrived):
        return fact
    return msgspec.structs.replace(fact, guest=msgspec.structs.replace(fact.guest, uid=uid, name=name))


def plan(
    engine: Engine,
    asked: PlanAsked,
    questions: Sequence[Question],
    may_read: MayRead,
    unavailable: UnavailableHosts | None = None,
) -> list[Planned]:
    """Place the VMs on a fork of the engine, and return where each would be placed.

    ``unavailable`` says why hosts take no VMs; without it such a host is just cordoned.
    """
    _change_hosts(engine, asked)
    if unavailable is not None:
        unavailable = with_hosts_left_out(unavailable, asked.without_hosts)
    for question in questions:
        for fact in question.facts:
            engine.apply(fact)
    closed = _cordoned_hosts(engine)
    outcome = try_at_once(engine)

    def planned(question: Question) -> Planned:
        host, hold = outcome.hosts.get(question.uid), None
        if host is None and question.uid in outcome.holds:
            hold = _in_user_terms(engine, outcome.holds[question.uid][-1], closed, unavailable)
        return _planned_vm(engine, question, host, hold, _victims(outcome, question.uid, may_read))

    return [planned(question) for question in questions]


class CandidateHosts(msgspec.Struct, frozen=True):
    """The verdicts of hosts for a VM, the best host, the VMs it would preempt, and why it fits nowhere.

    The best hosts come first; hosts that would not take the VM are sorted by how close they are.
    """

    hosts: list[HostVerdict]
    chosen: str | None
    evictions: list[Victim]
    why: str


def candidates(
    engine: Engine, facts: tuple[Event, ...], uid: str, may_read: MayRead, unavailable: UnavailableHosts | None = None
) -> CandidateHosts:
    """Return the verdict of each host for a VM, and where it would be placed; see ``plan``."""
    for fact in facts:
        engine.apply(fact)
    explained = explain_guest(engine, uid, may_read, unavailable)
    closed = _cordoned_hosts(engine)
    outcome = try_at_once(engine)
    chosen = outcome.hosts.get(uid)
    found = [without_minus_zero(verdict) for verdict in explained.verdicts]
    found.sort(key=lambda verdict: verdict.host != chosen)  # the rest stays: the best first, then the nearest
    if chosen:
        return CandidateHosts(found, chosen, _victims(outcome, uid, may_read), "")
    if explained.quota:
        return CandidateHosts(found, None, [], f"{QUOTA_FULL}: {explained.quota}")
    why = ""
    if uid in outcome.holds:
        hold = _in_user_terms(engine, outcome.holds[uid][0], closed, unavailable)
        why = why_held(hold, engine.view.guest(uid).spec)
    return CandidateHosts(found, None, [], why)


def _cordoned_hosts(engine: Engine) -> list[str]:
    """Return the hosts that are cordoned for the engine."""
    return [host.name for host in engine.hosts() if host.cordoned]


def _in_user_terms(engine: Engine, hold: Defer, closed: Sequence[str], unavailable: UnavailableHosts | None) -> Defer:
    reasons = to_user_counts(hold.reasons, engine.view.guest(hold.uid).spec)
    if unavailable is not None:
        reasons = count_unavailable_reasons(reasons, closed, unavailable)
    return msgspec.structs.replace(hold, reasons=reasons)


def _change_hosts(engine: Engine, asked: PlanAsked) -> None:
    known = {host.name: host for host in engine.hosts()}
    for name in dict.fromkeys(asked.without_hosts):
        if name not in known:
            what = Cause("missing", "host", name[:100])
            hint = "name hosts that are listed"
            raise InputError(f"without_hosts: there is no host {name[:100]!r}", hint=hint, cause=what)
        host = known[name]
        engine.apply(HostChanged(host=msgspec.structs.replace(host, version=host.version + 1, cordoned=True)))
    for one in asked.hosts:
        for number in range(one.count):
            name = one.name if one.count == 1 else f"{one.name}-{number}"
            if name in known:
                raise InputError(f"hosts: there is a host {name} already", hint="choose another name")
            engine.apply(HostJoined(host=_host(one, name)))


def _host(one: PlanHost, name: str) -> Host:
    size = {
        CPU: parse_resource(CPU, one.cpu),
        MEMORY: parse_resource(MEMORY, one.memory),
        STORAGE: parse_resource(STORAGE, one.disk),
    }
    marks: Labels = labels({**one.labels, HOST_NAME: name})
    return Host(name=name, uid=f"plan:{name}", version=1, capacity=amounts(size), labels=marks)


def _victims(outcome: WhatIfOutcome, uid: str, may_read: MayRead) -> list[Victim]:
    """Return the VMs that would be preempted, with the names that the caller may see."""
    return [hide_names(_victim(one), may_read) for one in outcome.evictions_for(uid)]


def _victim(eviction: TriedEviction) -> Victim:
    action, guest = eviction.action, eviction.guest
    target = action.target if isinstance(action, Move) else ""
    vm, project = vm_of_uid(action.uid), guest.spec.namespace
    return Victim(vm=vm, project=project, name=guest.name, host=action.host, moves_to=target)


def _planned_vm(
    engine: Engine, question: Question, host: str | None, hold: Defer | None, victims: list[Victim]
) -> Planned:
    waits = "the search continues" if engine.is_searching else "it waits for others"
    why, reasons = "" if host else waits, []
    if host is None and hold is not None:
        why, reasons = why_held(hold, engine.view.guest(question.uid).spec), list(hold.reasons)
    return Planned(project=question.project, name=question.name, host=host, why=why, reasons=reasons, evictions=victims)
