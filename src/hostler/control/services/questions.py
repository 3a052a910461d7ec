"""What-ifs, asked of a twin of the engine that is thrown away: nothing is written, and nobody is told.

``answer_plan`` and ``answer_candidates`` are questions for ``control.books``: they return the answer as JSON, since it
may come from another process and be large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hostler.control.api.shapes import Candidates, Plan, PlanAsked, PlanHost, Planned, Victim
from hostler.control.books.reading import QUOTA_FULL, why_held
from hostler.control.services.discretion import MayRead, discreet
from hostler.control.services.explaining import told
from hostler.control.services.projects import with_strategies
from hostler.control.services.standing import Standings, recounted, without
from hostler.control.settings import check_strategy
from hostler.control.store import Connection
from hostler.control.vms import wishes
from hostler.control.vms.guests import vm_of_uid
from hostler.control.vms.reasons import reworded
from hostler.control.vms.spec import HOST_NAME, VmSpec
from hostler.engine import Engine
from hostler.engine.search_shares import SEARCH_CONTINUES
from hostler.errors import InputError
from hostler.model import (
    CPU,
    MEMORY,
    STORAGE,
    Bind,
    Event,
    Evict,
    GuestArrived,
    GuestLeft,
    Hold,
    Host,
    HostChanged,
    HostJoined,
    HostVerdict,
    Labels,
    amounts,
    labels,
    parse_resource,
)
from hostler.model.plain_data import without_minus_zero

__all__ = [
    "Found",
    "Question",
    "answer_candidates",
    "answer_plan",
    "candidates",
    "facts_of",
    "plan",
    "with_defaults",
    "would_be",
]

_MOST = 2000
_ROUNDS = 20  # of evictions that make room, one after the other


def would_be(identity: str, project: str, name: str, spec: VmSpec) -> tuple[Event, ...]:
    """Return what the engine would be told of a new VM; InputError."""
    if spec.strategy:
        check_strategy(spec.strategy)
    return wishes.create(identity, project, name, spec).facts


def answer_plan(
    engine: Engine, seq: int, *, asked: PlanAsked, may_read: MayRead, standings: Standings | None = None
) -> bytes:
    """Return a Plan as JSON; InputError."""
    return msgspec.json.encode(Plan(seq=seq, placements=plan(engine, asked, facts_of(asked), may_read, standings)))


def answer_candidates(
    engine: Engine,
    seq: int,
    *,
    uid: str,
    facts: tuple[Event, ...],
    may_read: MayRead,
    standings: Standings | None = None,
    changed_hosts: PlanAsked | None = None,
) -> bytes:
    """Return Candidates as JSON, on hosts as they would be with the changes of a plan; InputError."""
    if changed_hosts is not None:
        plan(engine, msgspec.structs.replace(changed_hosts, vms=[]), (), may_read)  # others who wait come first
        if standings is not None:
            standings = without(standings, changed_hosts.without_hosts)
    found = candidates(engine, facts, uid, may_read, standings)
    return msgspec.json.encode(
        Candidates(seq=seq, hosts=found.hosts, chosen=found.chosen, evictions=found.evictions, why=found.why)
    )


class Question(msgspec.Struct, frozen=True):
    """A VM that might be asked for, as the engine would be told of it."""

    uid: str
    project: str
    name: str
    facts: tuple[Event, ...]


def with_defaults(connection: Connection, asked: PlanAsked) -> PlanAsked:
    """Return what is asked with the strategies of its projects, where it names none."""
    specs = with_strategies(connection, [(one.project, one.spec) for one in asked.vms])
    vms = [msgspec.structs.replace(one, spec=spec) for one, spec in zip(asked.vms, specs, strict=True)]
    return msgspec.structs.replace(asked, vms=vms)


def facts_of(asked: PlanAsked) -> list[Question]:
    """Return all VMs of a plan; InputError."""
    if sum(one.count for one in asked.vms) > _MOST or sum(one.count for one in asked.hosts) > _MOST:
        raise InputError("more than can be planned at once", hint=f"at most {_MOST} VMs and {_MOST} hosts")
    if any(HOST_NAME in one.labels for one in asked.hosts):
        raise InputError(f"hosts: {HOST_NAME!r} is the name that a host has anyway", hint="leave that label out")
    found: list[Question] = []
    for at, one in enumerate(asked.vms):
        first = would_be(f"plan-{at}-0", one.project, one.name, one.spec)
        for number in range(one.count):
            uid = f"plan-{at}-{number}"
            name = one.name if one.count == 1 else f"{one.name}-{number}"
            found.append(Question(uid, one.project, name, tuple(_renamed(fact, uid, name) for fact in first)))
    return found


def _renamed(fact: Event, uid: str, name: str) -> Event:
    """Return the fact of an equal VM: reading a spec costs more than everything else."""
    if not isinstance(fact, GuestArrived):
        return fact
    return msgspec.structs.replace(fact, guest=msgspec.structs.replace(fact.guest, uid=uid, name=name))


def plan(
    engine: Engine,
    asked: PlanAsked,
    questions: Sequence[Question],
    may_read: MayRead,
    standings: Standings | None = None,
) -> list[Planned]:
    """Say where each of these VMs would go, on a twin of the engine.

    ``standings`` say what keeps VMs from hosts; without them a host that takes none is just cordoned.
    """
    _change_hosts(engine, asked)
    if standings is not None:
        standings = without(standings, asked.without_hosts)
    for question in questions:
        for fact in question.facts:
            engine.apply(fact)
    closed = _closed(engine)
    wanted = {question.uid for question in questions}
    placed: dict[str, str] = {}
    held: dict[str, Hold] = {}
    victims: dict[str, list[Victim]] = {}
    for action in _decided(engine):
        if isinstance(action, Bind) and action.uid in wanted:
            placed[action.uid] = action.host
        elif isinstance(action, Hold) and action.uid in wanted:
            held[action.uid] = _restated(engine, action, closed, standings)
        elif isinstance(action, Evict):
            victims.setdefault(action.preemptor, []).append(discreet(_victim(engine, action), may_read))
    return [
        _planned(engine, one, placed.get(one.uid), held.get(one.uid), victims.get(one.uid, [])) for one in questions
    ]


class Found(msgspec.Struct, frozen=True):
    """What hosts say to a VM, where it would go after whom, and why nowhere.

    The best come first, and of those that would not take it the nearest.
    """

    hosts: list[HostVerdict]
    chosen: str | None
    evictions: list[Victim]
    why: str


def candidates(
    engine: Engine, facts: tuple[Event, ...], uid: str, may_read: MayRead, standings: Standings | None = None
) -> Found:
    """Return what each host says to a VM, and where it would go; see ``plan``."""
    for fact in facts:
        engine.apply(fact)
    explained = told(engine, uid, may_read, standings)
    chosen, why, closed = None, "", _closed(engine)
    victims: list[Victim] = []
    for action in _decided(engine):
        if isinstance(action, Bind) and action.uid == uid:
            chosen = action.host
        elif isinstance(action, Hold) and action.uid == uid and not why:
            why = why_held(_restated(engine, action, closed, standings), engine.view.guest(uid).spec)
        elif isinstance(action, Evict) and action.preemptor == uid:
            victims.append(discreet(_victim(engine, action), may_read))
    found = [without_minus_zero(verdict) for verdict in explained.verdicts]
    found.sort(key=lambda verdict: verdict.host != chosen)  # the rest stays: the best first, then the nearest
    if chosen:
        return Found(found, chosen, victims, "")
    return Found(found, None, [], f"{QUOTA_FULL}: {explained.quota}" if explained.quota else why)


def _closed(engine: Engine) -> list[str]:
    """Name the hosts that the engine takes for cordoned."""
    return [host.name for host in engine.hosts() if host.cordoned]


def _restated(engine: Engine, hold: Hold, closed: Sequence[str], standings: Standings | None) -> Hold:
    reasons = reworded(hold.reasons, engine.view.guest(hold.uid).spec)
    if standings is not None:
        reasons = recounted(reasons, closed, standings)
    return msgspec.structs.replace(hold, reasons=reasons)


def _change_hosts(engine: Engine, asked: PlanAsked) -> None:
    known = {host.name: host for host in engine.hosts()}
    for name in dict.fromkeys(asked.without_hosts):
        if name not in known:
            raise InputError(f"without_hosts: there is no host {name[:100]!r}", hint="name hosts that are listed")
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


def _decided(engine: Engine) -> Iterator[Bind | Hold | Evict]:
    """Step until nothing more happens; whoever makes way leaves at once."""
    engine.search_without_rest()
    for _ in range(_ROUNDS):
        for action in engine.step(engine.now):
            if isinstance(action, Bind | Hold | Evict):
                yield action
        leaving = list(engine.view.evicting)
        for uid in leaving:
            engine.apply(GuestLeft(uid=uid))
        if not leaving and not engine.is_searching:
            return


def _victim(engine: Engine, action: Evict) -> Victim:
    guest = engine.view.guest(action.uid)
    return Victim(vm=vm_of_uid(action.uid), project=guest.spec.namespace, name=guest.name, host=action.host)


def _planned(engine: Engine, question: Question, host: str | None, hold: Hold | None, victims: list[Victim]) -> Planned:
    waits = SEARCH_CONTINUES if engine.is_searching else "it waits for others"
    why, reasons = "" if host else waits, []
    if host is None and hold is not None:
        why, reasons = why_held(hold, engine.view.guest(question.uid).spec), list(hold.reasons)
    return Planned(project=question.project, name=question.name, host=host, why=why, reasons=reasons, evictions=victims)
