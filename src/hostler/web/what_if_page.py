"""A form that asks where VMs would go. It is read by GET, so that an answer can be bookmarked and shown to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

import msgspec
from starlette.responses import Response

from hostler.control.api.problems import problem
from hostler.control.api.shapes import Candidates, Plan, PlanAsked, Victim
from hostler.control.services import questions, standing
from hostler.control.services.bounds import check_bounds
from hostler.control.services.discretion import readable
from hostler.control.settings import policies_for
from hostler.errors import HostlerError
from hostler.web.desk import Visit
from hostler.web.exchange import HEADERS, wants_json
from hostler.web.lists import project_names
from hostler.web.problems import problem_of
from hostler.web.templating import with_query
from hostler.web.verdicts import Verdicts, verdicts_of
from hostler.web.what_if_form import TITLES, Asked, place_of, read

__all__ = ["show"]

_UID = "what-if"


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
    """Show the form, and the answer where something was asked, or what is wrong beside each field."""
    visit.principal.check("plan.run", visit.principal.project)
    asked = _asked(visit)
    answer: Answer | None = None
    plan: PlanAsked | None = None
    wrong: dict[str, HostlerError] = {}
    is_json = wants_json(visit.request)
    if visit.query("ask") or is_json:
        plan, wrong = read(asked)
        try:
            answer = await _allowed(visit, plan) if plan is not None else None
        except HostlerError as refused:
            wrong = {place_of(refused): refused}
    if is_json:
        return _as_json(visit, answer, wrong)
    problems = {place: problem_of(visit, error) for place, error in wrong.items()}
    return await visit.render(
        "what_if.html",
        title="What if",
        twin=with_query("/what-if", ask="json", **msgspec.structs.asdict(asked)),
        status=max((one.status for one in problems.values()), default=200),
        asked=asked,
        titles=TITLES,
        projects=[(name, name) for name in await visit.read(lambda one: project_names(one, visit.caller))],
        strategies=[("", "the default"), *((one.name, one.name) for one in policies_for(visit.context.settings))],
        default_strategy=visit.context.settings.strategy,
        problems=problems,
        result=answer,
        verdicts=answer.verdicts if answer is not None else None,
        body=msgspec.json.format(msgspec.json.encode(plan), indent=2).decode() if plan is not None else "",
        sees_hosts=visit.may("host.read"),
    )


def _asked(visit: Visit) -> Asked:
    default = msgspec.structs.asdict(Asked(project=visit.principal.project or "default"))
    return Asked(**{name: visit.query(name, value)[:400] for name, value in default.items()})


async def _allowed(visit: Visit, plan: PlanAsked) -> Answer:
    visit.principal.check("plan.run", plan.vms[0].project)
    principal = visit.principal
    visit.context.limiter.check(  # it costs as much as a change
        principal.id, visit.now_ns, is_change=True, project=principal.project
    )
    with visit.context.asking.turn(visit.principal.id, {plan.vms[0].project}):
        return await _answer(visit, plan)


async def _answer(visit: Visit, plan: PlanAsked) -> Answer:
    plan, standings = await visit.read(
        lambda connection: (questions.with_defaults(connection, plan), standing.read(connection))
    )
    one = plan.vms[0]
    facts = questions.would_be(_UID, one.project, one.name, one.spec)
    await visit.read(lambda connection: check_bounds(connection, one.project, one.spec, visit.caller))
    books, may_read = visit.context.books, readable(visit.principal)
    planned = await books.what_if(partial(questions.answer_plan, asked=plan, may_read=may_read, standings=standings))
    found = await books.what_if(
        partial(
            questions.answer_candidates,
            uid=_UID,
            facts=facts,
            may_read=may_read,
            standings=standings,
            changed_hosts=plan,
        )
    )
    told = Told(plan=msgspec.json.decode(planned, type=Plan), candidates=msgspec.json.decode(found, type=Candidates))
    return _summed(told)


def _as_json(visit: Visit, answer: Answer | None, wrong: Mapping[str, HostlerError]) -> Response:
    if answer is None:
        first = next(iter(wrong.values()))  # as REST, which tells of one thing at a time
        return problem(first, path=visit.request.url.path, request_id=visit.caller.request_id)
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
        verdicts=verdicts_of(told.candidates.hosts, told.candidates.chosen or ""),
    )
