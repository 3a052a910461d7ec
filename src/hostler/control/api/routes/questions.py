"""Routes for questions to the engine that change nothing: what-ifs, queue, VMs of a host, strategies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from hostler.config.entries import means
from hostler.control.api.requests.call import ApiCall
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.lists import PageQuery, Short
from hostler.control.books import ledger
from hostler.control.schemas import (
    Candidates,
    CandidatesAsked,
    Page,
    Plan,
    PlanAsked,
    PlanVm,
    Policies,
    Policy,
    Queue,
    Scorer,
    Vm,
)
from hostler.control.services.explanations import what_ifs
from hostler.control.services.hosts import host_changes, unavailable_hosts
from hostler.control.services.tenancy.bounds import check_bounds
from hostler.control.services.tenancy.projects import with_strategy
from hostler.control.services.visible_names import readable
from hostler.control.services.vms.gangs import with_stopped_members
from hostler.control.services.vms.vm_views import show_waiting, undecided_reason
from hostler.control.settings import policies_for
from hostler.control.store import Connection
from hostler.control.store.history import lease
from hostler.control.store.rows.vms import list_waiting

__all__ = ["ROUTES"]

ROUTES = Routes("questions")
_ASKED = "asked"
# They cost more than changes, and count as such for the rate limit: is_change stays what it is for every POST.
_ASKING: dict[str, Any] = {
    "refusals": (404, 503),
    "description": "Nothing is written; seq is the last log entry that is considered. VMs of projects that the caller "
    "may not read are not named. If too many questions run at once, the response is 503 with Retry-After.",
}


class QueueQuery(PageQuery, frozen=True):
    """Filters for the queue."""

    project: Annotated[Short, means("Only of this project.")] = ""


@ROUTES.add(
    "POST",
    "/v1/plan",
    "Plan where VMs would be placed",
    body=PlanAsked,
    answers={200: Plan},
    permission="plan.run",
    **_ASKING,
)
async def plan(call: ApiCall) -> Reply:
    """Return where VMs would be placed."""
    asked = call.body(PlanAsked)
    for one in asked.vms:  # before a place among those of the project is taken
        call.principal.check("plan.run", one.project)
    with call.context.asking.turn(call.principal.id, {one.project for one in asked.vms}):
        return Reply(200, await _plan(call, asked))


async def _plan(call: ApiCall, asked: PlanAsked) -> msgspec.Raw:
    asked, unavailable = await call.read(
        lambda connection: (what_ifs.with_defaults(connection, asked), unavailable_hosts.read(connection))
    )
    await call.read(lambda connection: _check_bounds(connection, call, asked.vms))
    may_read = readable(call.principal)
    question = partial(what_ifs.answer_plan, asked=asked, may_read=may_read, unavailable=unavailable)
    return msgspec.Raw(await call.context.books.what_if(question))


@ROUTES.add(
    "POST",
    "/v1/candidates",
    "Get the verdict of each host for a VM",
    body=CandidatesAsked,
    answers={200: Candidates},
    permission="plan.run",
    **_ASKING,
)
async def candidates(call: ApiCall) -> Reply:
    """Return the verdict of each host for a VM."""
    asked = call.body(CandidatesAsked)
    call.principal.check("plan.run", asked.project)
    with call.context.asking.turn(call.principal.id, {asked.project}):
        return Reply(200, await _candidates(call, asked))


async def _candidates(call: ApiCall, asked: CandidatesAsked) -> msgspec.Raw:
    spec, unavailable = await call.read(
        lambda connection: (with_strategy(connection, asked.project, asked.spec), unavailable_hosts.read(connection))
    )
    facts = what_ifs.guest_facts(_ASKED, asked.project, _ASKED, spec, call.caller.strategies)
    await call.read(lambda connection: _check_bounds(connection, call, [asked]))
    may_read = readable(call.principal)
    question = partial(what_ifs.answer_candidates, uid=_ASKED, facts=facts, may_read=may_read, unavailable=unavailable)
    return msgspec.Raw(await call.context.books.what_if(question))


def _check_bounds(connection: Connection, call: ApiCall, asked: Sequence[PlanVm | CandidatesAsked]) -> None:
    """Reject what a real create would reject."""
    for one in asked:
        check_bounds(connection, one.project, one.spec, call.caller)


@ROUTES.add(
    "GET", "/v1/queue", "Get the VMs that wait, and why", query=QueueQuery, answers={200: Queue}, permission="vm.read"
)
async def queue(call: ApiCall) -> Reply:
    """Return the waiting VMs with their reasons, by priority, then oldest first."""
    asked = call.ask(QueueQuery)
    project = call.principal.limit_project(asked.project)
    call.principal.check("vm.read", project)
    books = call.context.books
    seq = books.seq

    def work(connection: Connection) -> Queue:
        page = list_waiting(connection, project, after=asked.after, limit=asked.limit)
        gathers = with_stopped_members(connection, books.gathers)
        undecided = undecided_reason(lease.read(connection))
        items = [show_waiting(ledger.read_row(row), gathers, books.tried_at, undecided) for row in page.items]
        return Queue(seq=seq, items=items, next=page.next)

    return Reply(200, await call.read(work))


@ROUTES.add(
    "GET",
    "/v1/hosts/{id}/vms",
    "Get the VMs of a host, including those that move there",
    answers={200: Page[Vm]},
    permission="host.read",
    refusals=(404, 410),
    description="All in one page, also those that are on their way there. VMs of projects that the caller may not read "
    "are left out.",
)
async def host_vms(call: ApiCall) -> Reply:
    """Return the VMs on a host, and those that are moving there."""
    found = await call.read(lambda connection: host_changes.list_vms(connection, call.part("id"), call.caller))
    return Reply(200, Page(items=found))


@ROUTES.add("GET", "/v1/policies", "List strategies", answers={200: Policies})
async def policies(call: ApiCall) -> Reply:
    """Return all strategies."""
    found = policies_for(call.context.settings)
    default = found[0].name
    items = [
        Policy(
            name=one.name,
            is_default=one.name == default,
            description=one.summary,
            filters=[use.name for use in one.filters],
            scorers=[Scorer(plugin=use.shown_as or use.name, weight=use.weight) for use in one.scorers],
        )
        for one in found
    ]
    return Reply(200, Policies(default=default, items=items))
