"""A form that asks where VMs would go. It is read by GET, so that an answer can be bookmarked and shown to others."""

from __future__ import annotations

from collections import Counter

import msgspec
from starlette.responses import Response

from hostler.control.api.problems import problem, status_of
from hostler.control.api.shapes import Candidates, Plan, PlanAsked, PlanVm, Victim
from hostler.control.services import questions, standing
from hostler.control.services.bounds import check_bounds
from hostler.control.services.discretion import readable
from hostler.control.settings import policies_for
from hostler.control.vms.spec import VmSpec
from hostler.engine import Engine
from hostler.errors import HostlerError, InputError
from hostler.web.desk import Visit
from hostler.web.exchange import HEADERS, wants_json
from hostler.web.fields import pairs_of, whole_number
from hostler.web.lists import project_names
from hostler.web.templating import with_query
from hostler.web.verdicts import Verdicts, verdicts_of

__all__ = ["show"]

_MOST = 200
_UID = "what-if"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form, as they were typed."""

    cpu: str = "2"
    memory: str = "4Gi"
    disk: str = ""
    count: str = "1"
    project: str = "default"
    priority: str = "0"
    strategy: str = ""
    host_name: str = ""
    selector: str = ""
    without: str = ""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The same as JSON: what REST answers to both questions."""

    plan: Plan
    candidates: Candidates


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine said."""

    told: Told
    seq: int
    placed: int
    unplaced: int
    why: str
    chosen: str
    by_host: list[tuple[str, int]]
    evictions: list[Victim]
    verdicts: Verdicts


async def show(visit: Visit) -> Response:
    """Show the form, and the answer where something was asked."""
    visit.principal.check("plan.run", visit.principal.project)
    asked = _asked(visit)
    answer: Answer | None = None
    error: HostlerError | None = None
    plan: PlanAsked | None = None
    is_json = wants_json(visit.request)
    if visit.query("ask") or is_json:
        try:
            plan = _plan(asked)
            visit.principal.check("plan.run", asked.project)
            visit.context.limiter.check(visit.principal.id, visit.now_ns, is_change=True)  # it costs as much
            answer = await _answer(visit, plan)
        except HostlerError as refused:
            error = refused
    if is_json:
        return _as_json(visit, answer, error)
    return await visit.render(
        "what_if.html",
        title="What if",
        twin=with_query("/what-if", ask="json", **msgspec.structs.asdict(asked)),
        status=status_of(error) if error is not None else 200,
        asked=asked,
        projects=await visit.read(lambda connection: project_names(connection, visit.caller)),
        strategies=[policy.name for policy in policies_for(visit.context.settings)],
        default_strategy=visit.context.settings.strategy,
        error=error,
        result=answer,
        verdicts=answer.verdicts if answer is not None else None,
        body=msgspec.json.format(msgspec.json.encode(plan), indent=2).decode() if plan is not None else "",
        sees_hosts=visit.may("host.read"),
    )


def _asked(visit: Visit) -> Asked:
    default = msgspec.structs.asdict(Asked(project=visit.principal.project or "default"))
    return Asked(**{name: visit.query(name, value)[:400] for name, value in default.items()})


def _plan(asked: Asked) -> PlanAsked:
    """Return the question that REST would be asked; InputError."""
    spec = {
        "cpu": asked.cpu,
        "memory": asked.memory,
        "disks": [{"size": asked.disk}] if asked.disk else [],
        "priority": whole_number("priority", asked.priority, -(2**31), 2**31 - 1),
        "strategy": asked.strategy,
        "host_name": asked.host_name,
        "host_selector": pairs_of("labels", asked.selector),
    }
    count = whole_number("how many", asked.count, 1, _MOST)
    try:
        vm = PlanVm(spec=msgspec.convert(spec, VmSpec), project=asked.project, count=count)
    except msgspec.ValidationError as error:
        raise InputError(str(error), hint="write amounts such as 2, 500m or 4Gi") from error
    return PlanAsked(vms=[vm], without_hosts=[one for one in map(str.strip, asked.without.split(",")) if one])


async def _answer(visit: Visit, plan: PlanAsked) -> Answer:
    plan, standings = await visit.read(
        lambda connection: (questions.with_defaults(connection, plan), standing.read(connection))
    )
    one = plan.vms[0]
    facts = questions.would_be(_UID, one.project, one.name, one.spec)
    vms = questions.facts_of(plan)
    await visit.read(lambda connection: check_bounds(connection, one.project, one.spec, visit.caller))
    books, may_read = visit.context.books, readable(visit.principal)
    planned, seq = await books.what_if(lambda engine: questions.plan(engine, plan, vms, may_read, standings))

    def look(engine: Engine) -> questions.Found:
        questions.plan(engine, msgspec.structs.replace(plan, vms=[]), (), may_read)  # the same hosts, nobody new
        there = standing.without(standings, plan.without_hosts)
        return questions.candidates(engine, facts, _UID, may_read, there)

    found, seen = await books.what_if(look)
    told = Told(
        plan=Plan(seq=seq, placements=planned),
        candidates=Candidates(
            seq=seen, hosts=found.hosts, chosen=found.chosen, evictions=found.evictions, why=found.why
        ),
    )
    return _summed(told)


def _as_json(visit: Visit, answer: Answer | None, error: HostlerError | None) -> Response:
    if error is not None:
        return problem(error, path=visit.request.url.path, request_id=visit.caller.request_id)
    assert answer is not None
    return Response(msgspec.json.encode(answer.told), media_type="application/json", headers=HEADERS)


def _summed(told: Told) -> Answer:
    planned = told.plan.placements
    hosts = Counter(one.host for one in planned if one.host)
    waiting = [one for one in planned if not one.host]
    return Answer(
        told=told,
        seq=told.plan.seq,
        placed=hosts.total(),
        unplaced=len(waiting),
        why=waiting[0].why if waiting else "",
        chosen=told.candidates.chosen or "",
        by_host=sorted(hosts.items(), key=lambda item: (-item[1], item[0])),
        evictions=[victim for one in planned for victim in one.evictions],
        verdicts=verdicts_of(told.candidates.hosts),
    )
