"""What-ifs, the queue, who is on a host, strategies: questions to the engine that change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from hostler.config.entries import means
from hostler.control.api.calls import Call
from hostler.control.api.listing import PageQuery, Short
from hostler.control.api.routes import Reply, Routes
from hostler.control.api.shapes import (
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
from hostler.control.books import ledger
from hostler.control.services import hosts, questions, standing
from hostler.control.services.bounds import check_bounds
from hostler.control.services.discretion import readable
from hostler.control.services.gangs import counting_stopped
from hostler.control.services.projects import with_strategy
from hostler.control.services.showing import show_waiting, undecided_reason
from hostler.control.settings import policies_for
from hostler.control.store import Connection, lease
from hostler.control.store.vms import list_waiting

__all__ = ["ROUTES"]

ROUTES = Routes("questions")
_ASKED = "asked"
# They cost more than changes, and count as such for the rate limit: is_change stays what it is for every POST.
_ASKING: dict[str, Any] = {
    "refusals": (404, 503),
    "description": "Nothing is written; seq says what is known. VMs of projects that the caller may not read are not "
    "named. When too many ask at once, some are told to come again: 503.",
}


class QueueQuery(PageQuery, frozen=True):
    """Whose queue."""

    project: Annotated[Short, means("Only of this project.")] = ""


@ROUTES.add(
    "POST",
    "/v1/plan",
    "Where would these VMs go?",
    body=PlanAsked,
    answers={200: Plan},
    permission="plan.run",
    **_ASKING,
)
async def plan(call: Call) -> Reply:
    """Say where VMs would go."""
    asked = call.body(PlanAsked)
    for one in asked.vms:  # before a place among those of the project is taken
        call.principal.check("plan.run", one.project)
    with call.context.asking.turn(call.principal.id, {one.project for one in asked.vms}):
        return Reply(200, await _plan(call, asked))


async def _plan(call: Call, asked: PlanAsked) -> msgspec.Raw:
    asked, standings = await call.read(
        lambda connection: (questions.with_defaults(connection, asked), standing.read(connection))
    )
    await call.read(lambda connection: _check_bounds(connection, call, asked.vms))
    may_read = readable(call.principal)
    question = partial(questions.answer_plan, asked=asked, may_read=may_read, standings=standings)
    return msgspec.Raw(await call.context.books.what_if(question))


@ROUTES.add(
    "POST",
    "/v1/candidates",
    "What does each host say to such a VM?",
    body=CandidatesAsked,
    answers={200: Candidates},
    permission="plan.run",
    **_ASKING,
)
async def candidates(call: Call) -> Reply:
    """Return what each host says to a VM."""
    asked = call.body(CandidatesAsked)
    call.principal.check("plan.run", asked.project)
    with call.context.asking.turn(call.principal.id, {asked.project}):
        return Reply(200, await _candidates(call, asked))


async def _candidates(call: Call, asked: CandidatesAsked) -> msgspec.Raw:
    spec, standings = await call.read(
        lambda connection: (with_strategy(connection, asked.project, asked.spec), standing.read(connection))
    )
    facts = questions.would_be(_ASKED, asked.project, _ASKED, spec)
    await call.read(lambda connection: _check_bounds(connection, call, [asked]))
    may_read = readable(call.principal)
    question = partial(questions.answer_candidates, uid=_ASKED, facts=facts, may_read=may_read, standings=standings)
    return msgspec.Raw(await call.context.books.what_if(question))


def _check_bounds(connection: Connection, call: Call, asked: Sequence[PlanVm | CandidatesAsked]) -> None:
    """Refuse what would be refused if it were asked for in earnest."""
    for one in asked:
        check_bounds(connection, one.project, one.spec, call.caller)


@ROUTES.add("GET", "/v1/queue", "Who waits, and why", query=QueueQuery, answers={200: Queue}, permission="vm.read")
async def queue(call: Call) -> Reply:
    """Return who waits for a place, and why: by priority, then the oldest first."""
    asked = call.ask(QueueQuery)
    project = call.principal.narrowed(asked.project)
    call.principal.check("vm.read", project)
    books = call.context.books
    seq = books.seq

    def work(connection: Connection) -> Queue:
        page = list_waiting(connection, project, after=asked.after, limit=asked.limit)
        gathers = counting_stopped(connection, books.gathers)
        undecided = undecided_reason(lease.read(connection))
        items = [show_waiting(ledger.stored(row), gathers, books.tried_at, undecided) for row in page.items]
        return Queue(seq=seq, items=items, next=page.next)

    return Reply(200, await call.read(work))


@ROUTES.add(
    "GET",
    "/v1/hosts/{id}/vms",
    "Which VMs a host has, or is to have",
    answers={200: Page[Vm]},
    permission="host.read",
    refusals=(404, 410),
    description="All in one page, also those that are on their way there. VMs of projects that the caller may not read "
    "are left out.",
)
async def host_vms(call: Call) -> Reply:
    """Return the VMs on a host, and those that land there."""
    found = await call.read(lambda connection: hosts.list_vms(connection, call.part("id"), call.caller))
    return Reply(200, Page(items=found))


@ROUTES.add("GET", "/v1/policies", "Which strategies there are", answers={200: Policies})
async def policies(call: Call) -> Reply:
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
