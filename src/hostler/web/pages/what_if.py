"""A form that asks where VMs would go, and the question that REST would be asked.

It is read by GET, so that an answer can be bookmarked and shown to others. Every field is read by itself, so two
mistyped fields are reported at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from starlette.responses import Response

from hostler.control.api.requests.problems import problem
from hostler.control.schemas import Candidates, Plan, PlanAsked, PlanVm, Victim
from hostler.control.services.explanations import what_ifs
from hostler.control.services.hosts import unavailable_hosts
from hostler.control.services.tenancy.bounds import check_bounds
from hostler.control.services.visible_names import readable
from hostler.control.settings import policies_for
from hostler.control.vms.spec import VmSpec, check_vm_spec
from hostler.control.vms.units import guess_unit
from hostler.errors import HostlerError, InputError, QuantityError
from hostler.model.resources import CPU, MEMORY, STORAGE, parse_resource
from hostler.web.jinja_environment import with_query
from hostler.web.lists import project_names
from hostler.web.page_requests import PageRequest, problem_of
from hostler.web.request_forms import HEADERS, pairs_of, wants_json, whole_number
from hostler.web.verdicts import HostVerdicts, verdicts_of

__all__ = ["TITLES", "WhatIfForm", "field_of_problem", "read_what_if", "show"]

_MOST = 200
_SMALL = {"cpu": "1", "memory": "1Gi"}  # what a field stands beside that is looked at alone
TITLES = {
    "cpu": "CPU",
    "memory": "Memory",
    "disk": "Disk on its host",
    "count": "How many",
    "project": "Project",
    "priority": "Priority",
    "strategy": "Strategy",
    "host_name": "Only on host",
    "selector": "Only hosts with labels",
    "without": "Without these hosts",
}
_HINTS = {
    "cpu": (CPU, "write processors, such as 2 or 500m"),
    "memory": (MEMORY, "write it as 4Gi or 512Mi"),
    "disk": (STORAGE, "write it as 20Gi, or nothing for none"),
}
_BY_WORD = {"without_hosts": "without", "host_selector": "selector", "disks[0].size": "disk"}
_BY_CODE = {"invalid_strategy": "strategy", "forbidden": "project"}


class WhatIfForm(msgspec.Struct, frozen=True, kw_only=True):
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


def read_what_if(asked: WhatIfForm) -> tuple[PlanAsked | None, dict[str, HostlerError]]:
    """Return the question that REST would be asked, or what is wrong with which field."""
    spec: dict[str, object] = {}
    wrong: dict[str, HostlerError] = {}
    for name, part in _PARTS.items():
        try:
            found = part(getattr(asked, name))
            _spec({**_SMALL, **found})
            spec |= found
        except InputError as error:
            wrong[name] = _with_own_hint(name, getattr(asked, name), error)
    try:
        count = whole_number("how many", asked.count, 1, _MOST)
    except InputError as error:
        wrong["count"] = error
    if wrong:
        return None, wrong
    vm = PlanVm(spec=_spec(spec), project=asked.project, count=count)
    return PlanAsked(vms=[vm], without_hosts=[one for one in map(str.strip, asked.without.split(",")) if one]), {}


def field_of_problem(error: HostlerError) -> str:
    """Return the field that an error is about, or an empty name."""
    word = error.message.partition(":")[0]
    place = _BY_WORD.get(word, word)
    return place if place in TITLES else _BY_CODE.get(error.code, "")


def _spec(values: Mapping[str, object]) -> VmSpec:
    try:
        return check_vm_spec(msgspec.convert(values, VmSpec))
    except msgspec.ValidationError as error:
        raise InputError(str(error), hint="correct that field; /docs lists the fields") from error


def _with_own_hint(name: str, text: str, error: HostlerError) -> HostlerError:
    """Return an error about an invalid amount with a hint for this kind of amount."""
    resource, hint = _HINTS.get(name, ("", ""))
    try:
        if resource:
            parse_resource(resource, text)
    except QuantityError:
        return QuantityError(error.message, hint=f"{guess_unit(resource, text)}{hint}")
    return error


_PARTS: dict[str, Callable[[str], dict[str, object]]] = {
    "cpu": lambda text: {"cpu": text},
    "memory": lambda text: {"memory": text},
    "disk": lambda text: {"disks": [{"size": text}] if text else []},
    "priority": lambda text: {"priority": whole_number("priority", text, -(2**31), 2**31 - 1)},
    "strategy": lambda text: {"strategy": text},
    "host_name": lambda text: {"host_name": text},
    "selector": lambda text: {"host_selector": pairs_of("labels", text)},
}


_UID = "what-if"


class WhatIfJson(msgspec.Struct, frozen=True, kw_only=True):
    """The answer as JSON: what REST returns for both questions."""

    plan: Plan
    candidates: Candidates


class WhatIfAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the engine."""

    told: WhatIfJson
    seq: int
    placed: int
    unplaced: int
    why: str
    chosen: str
    by_host: list[tuple[str, int]]
    evictions: list[Victim]
    verdicts: HostVerdicts


async def show(visit: PageRequest) -> Response:
    """Show the form, and the answer where something was asked, or what is wrong beside each field."""
    visit.principal.check("plan.run", visit.principal.project)
    asked = _asked(visit)
    answer: WhatIfAnswer | None = None
    plan: PlanAsked | None = None
    wrong: dict[str, HostlerError] = {}
    is_json = wants_json(visit.request)
    if visit.query("ask") or is_json:
        plan, wrong = read_what_if(asked)
        try:
            answer = await _allowed(visit, plan) if plan is not None else None
        except HostlerError as refused:
            wrong = {field_of_problem(refused): refused}
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


def _asked(visit: PageRequest) -> WhatIfForm:
    default = msgspec.structs.asdict(WhatIfForm(project=visit.principal.project or "default"))
    return WhatIfForm(**{name: visit.query(name, value)[:400] for name, value in default.items()})


async def _allowed(visit: PageRequest, plan: PlanAsked) -> WhatIfAnswer:
    visit.principal.check("plan.run", plan.vms[0].project)
    principal = visit.principal
    visit.context.limiter.check(  # it costs as much as a change
        principal.id, visit.now_ns, is_change=True, project=principal.project
    )
    with visit.context.asking.turn(visit.principal.id, {plan.vms[0].project}):
        return await _answer(visit, plan)


async def _answer(visit: PageRequest, plan: PlanAsked) -> WhatIfAnswer:
    plan, unavailable = await visit.read(
        lambda connection: (what_ifs.with_defaults(connection, plan), unavailable_hosts.read(connection))
    )
    one = plan.vms[0]
    facts = what_ifs.guest_facts(_UID, one.project, one.name, one.spec, visit.caller.strategies)
    await visit.read(lambda connection: check_bounds(connection, one.project, one.spec, visit.caller))
    books, may_read = visit.context.books, readable(visit.principal)
    planned = await books.what_if(partial(what_ifs.answer_plan, asked=plan, may_read=may_read, unavailable=unavailable))
    found = await books.what_if(
        partial(
            what_ifs.answer_candidates,
            uid=_UID,
            facts=facts,
            may_read=may_read,
            unavailable=unavailable,
            changed_hosts=plan,
        )
    )
    told = WhatIfJson(
        plan=msgspec.json.decode(planned, type=Plan), candidates=msgspec.json.decode(found, type=Candidates)
    )
    return _summed(told)


def _as_json(visit: PageRequest, answer: WhatIfAnswer | None, wrong: Mapping[str, HostlerError]) -> Response:
    if answer is None:
        first = next(iter(wrong.values()))  # as REST, which tells of one thing at a time
        return problem(first, path=visit.request.url.path, request_id=visit.caller.request_id)
    return Response(msgspec.json.encode(answer.told), media_type="application/json", headers=HEADERS)


def _summed(told: WhatIfJson) -> WhatIfAnswer:
    planned = told.plan.placements
    hosts = Counter(one.host for one in planned if one.host)
    waiting = [one for one in planned if not one.host]
    return WhatIfAnswer(
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
