"""VMs: create, list, look, change, and let go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from hostler.config.entries import means
from hostler.control.api.calls import Call, new_id
from hostler.control.api.listing import (
    EDIT,
    GET,
    LabelTexts,
    Limit,
    PageQuery,
    Query,
    Short,
    WaitQuery,
    etag,
    read_labels,
)
from hostler.control.api.placing import create_or_refuse
from hostler.control.api.routes import Reply, Routes
from hostler.control.api.shapes import Event, Migrate, Nothing, Page, Start, Vm, VmChanged, VmCreate, VmEdit
from hostler.control.api.waiting import settled
from hostler.control.books import ledger
from hostler.control.services import events, standing, vms
from hostler.control.services.discretion import readable
from hostler.control.services.explaining import answer_decision
from hostler.control.services.gangs import counting_stopped
from hostler.control.services.lost_vms import find_missing, missing_hosts
from hostler.control.services.showing import show_vm
from hostler.control.store import Connection, hosts
from hostler.control.store import vms as rows
from hostler.control.store.vms import VmFilter
from hostler.control.vms.state import Power, State

__all__ = ["ROUTES"]

ROUTES = Routes("vms")
_LATER = "200: the operation has ended (ask for that with wait). 202: it is written down and will happen."
_ANSWERS = {202: VmChanged, 200: VmChanged}
_CHANGE: dict[str, Any] = {
    **EDIT,
    "query": WaitQuery,
    "answers": _ANSWERS,
    "is_repeatable": True,
    "description": _LATER,
}


class VmQuery(PageQuery, frozen=True):
    """Which VMs."""

    project: Annotated[Short, means("Only of this project.")] = ""
    state: Annotated[State | None, means("Only in this state.")] = None
    power: Annotated[Power | None, means("Only those of which this is wanted.")] = None
    host: Annotated[Short | None, means("Only on this host, by name or id; empty: those that are nowhere.")] = None
    gang: Annotated[Short | None, means("Only members of this gang.")] = None
    name: Annotated[Short | None, means("Only of this name.")] = None
    label: LabelTexts = field(default_factory=list)


class EventQuery(Query, frozen=True):
    """Which events."""

    after: Annotated[int, Meta(ge=0, le=2**63 - 1), means("Those after this number.")] = 0
    limit: Limit = 100


@ROUTES.add(
    "POST",
    "/v1/vms",
    "Create a VM",
    body=VmCreate,
    query=WaitQuery,
    answers=_ANSWERS,
    permission="vm.create",
    is_repeatable=True,
    has_etag=True,
    refusals=(404, 409, 503),
    description=f"{_LATER} With on_unplaceable=fail it is placed at once, or waits while others make way for it (and "
    "fails where that was in vain), or is refused; of several reasons the first of "
    "these is told: invalid_strategy, agent_service_unavailable, no_available_agents, insufficient_resources.",
)
async def create(call: Call) -> Reply:
    """Create a VM."""
    changed = await create_or_refuse(call, call.body(VmCreate))
    return await _answer(call, changed)


@ROUTES.add("GET", "/v1/vms", "List VMs", query=VmQuery, answers={200: Page[Vm]}, permission="vm.read")
async def list_vms(call: Call) -> Reply:
    """List VMs, oldest first."""
    asked, principal = call.ask(VmQuery), call.principal
    project = principal.narrowed(asked.project)
    principal.check("vm.read", project)
    labels = read_labels(asked.label)
    books = call.context.books

    def work(connection: Connection) -> Page[Vm]:
        host = asked.host
        if host:
            found = hosts.find_by_name(connection, host)
            host = found.id if found is not None else host
        wanted = VmFilter(
            project=project or None,
            host=host,
            state=asked.state,
            power=asked.power,
            gang=asked.gang,
            name=asked.name,
            labels=labels,
        )
        page = rows.list_page(connection, wanted, after=asked.after, limit=asked.limit)
        said, missing = counting_stopped(connection, books.gathers), find_missing(connection)
        return Page(
            items=[show_vm(ledger.stored(row), said, books.tried_at, missing) for row in page.items], next=page.next
        )

    return Reply(200, await call.read(work))


@ROUTES.add("GET", "/v1/vms/{id}", "Get a VM", answers={200: Vm}, permission="vm.read", **GET)
async def get(call: Call) -> Reply:
    """Get a VM."""
    books = call.context.books

    def work(connection: Connection) -> Vm:
        stored = vms.find(connection, call.part("id"), call.caller)
        said = counting_stopped(connection, books.gathers)
        return show_vm(stored, said, books.tried_at, find_missing(connection))

    found = await call.read(work)
    return Reply(200, found, etag(found.version))


@ROUTES.add(
    "PATCH",
    "/v1/vms/{id}",
    "Resize or edit a VM",
    body=VmEdit,
    permission="vm.change",
    **_CHANGE,
)
async def edit(call: Call) -> Reply:
    """Resize or edit a VM."""
    asked, identity, versions = call.body(VmEdit), call.part("id"), call.versions

    def work(connection: Connection) -> VmChanged:
        return vms.edit(connection, identity, asked, call.caller, new_id, versions=versions)

    return await _written(call, work)


@ROUTES.add(
    "DELETE",
    "/v1/vms/{id}",
    "Delete a VM",
    permission="vm.delete",
    **_CHANGE,
)
async def delete(call: Call) -> Reply:
    """Delete a VM, disks included."""
    return await _wished(call, vms.delete)


@ROUTES.add(
    "POST",
    "/v1/vms/{id}/migrate",
    "Move a VM that runs or is stopped",
    body=Migrate,
    is_body_needed=False,
    permission="vm.change",
    **_CHANGE,
)
async def migrate(call: Call) -> Reply:
    """Move a VM to another host."""
    return await _wished(call, partial(vms.migrate, host=call.body(Migrate).host))


@ROUTES.add(
    "POST",
    "/v1/vms/{id}/cancel-migration",
    "Let a VM that is being moved stay where it is",
    body=Nothing,
    is_body_needed=False,
    permission="vm.change",
    **{**_CHANGE, "description": f"{_LATER} While its host is drained that needs the permission host.operate too."},
)
async def cancel_migration(call: Call) -> Reply:
    """Call a move off, as long as nobody has said that the VM arrived."""
    return await _wished(call, vms.cancel_migration)


def _power(verb: str, summary: str) -> None:
    @ROUTES.add(
        "POST",
        f"/v1/vms/{{id}}/{verb}",
        summary,
        body=Nothing,
        is_body_needed=False,
        permission="vm.power",
        **_CHANGE,
    )
    async def handler(call: Call) -> Reply:
        return await _wished(call, partial(vms.power, verb=verb))


@ROUTES.add(
    "POST",
    "/v1/vms/{id}/start",
    "Start a VM",
    body=Start,
    is_body_needed=False,
    permission="vm.power",
    **{
        **_CHANGE,
        "description": f"{_LATER} A VM that is lost is refused (hosts_missing) while hosts are silent, offline or not "
        "registered since a restore: they may still have it. With force, which needs the permission vm.force, it is "
        "started all the same.",
    },
)
async def start(call: Call) -> Reply:
    """Start a VM."""
    return await _wished(call, partial(vms.start, is_forced=call.body(Start).force))


for _verb, _summary in (
    ("stop", "Stop a VM, which keeps its disk and its host"),
    ("restart", "Restart a VM"),
    ("pause", "Pause a VM"),
    ("resume", "Resume a paused VM"),
):
    _power(_verb, _summary)


@ROUTES.add(
    "GET",
    "/v1/vms/{id}/decision",
    "Explain where a VM is, or why it waits",
    answers={200: dict},
    permission="vm.read",
    refusals=(404,),
    description="The object that 'hostler explain -o json' prints, with the number of the last log entry that it "
    "knows as seq, the VM's state, how it is now in words that go on after its name, and, where somebody must do "
    "something about it, a hint. Where if_started is true the VM is stopped, and what is told is how it would be if "
    "it were started now. Of a VM that was stopped for another and waits since, made_way says why.",
)
async def decision(call: Call) -> Reply:
    """Explain where a VM is, or why it waits."""
    stored = await call.read(lambda connection: vms.find(connection, call.part("id"), call.caller))
    may_read, standings = readable(call.principal), await call.read(standing.read)
    missing = await call.read(missing_hosts) if stored.vm.is_lost else ()
    with call.context.asking.explanation(stored.vm.project, call.now_ns):
        question = partial(
            answer_decision, vm=stored.vm, may_read=may_read, standings=standings, missing=tuple(missing)
        )
        return Reply(200, msgspec.Raw(await call.context.books.explain(question)))


@ROUTES.add(
    "GET",
    "/v1/vms/{id}/events",
    "What happened to a VM",
    query=EventQuery,
    answers={200: Page[Event]},
    permission="vm.read",
    refusals=(404, 410),
)
async def vm_events(call: Call) -> Reply:
    """Return what happened to a VM."""
    asked = call.ask(EventQuery)

    def work(connection: Connection) -> Page[Event]:
        stored = vms.find(connection, call.part("id"), call.caller)
        found = events.read(
            connection,
            call.caller,
            after=asked.after,
            limit=asked.limit,
            project=stored.vm.project,
            subject=stored.vm.id,
        )
        return Page(items=found.items, next="" if found.is_last else str(found.after))

    return Reply(200, await call.read(work))


async def _wished(call: Call, wish: Callable[..., VmChanged]) -> Reply:
    """Carry out one of the wishes about a VM that all take the same."""
    identity, versions = call.part("id"), call.versions
    return await _written(call, lambda connection: wish(connection, identity, call.caller, new_id, versions=versions))


async def _written(call: Call, work: Callable[[Connection], VmChanged]) -> Reply:
    return await _answer(call, await call.write_once(work, VmChanged))


async def _answer(call: Call, changed: VmChanged) -> Reply:
    changed = await settled(call, changed, call.ask(WaitQuery).wait)
    is_over = changed.operation.state != "pending"
    return Reply(200 if is_over else 202, changed, etag(changed.vm.version))
