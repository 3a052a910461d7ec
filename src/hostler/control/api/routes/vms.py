"""Routes for VMs: create, list, get, change and delete."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import field

from hostler.config.entries import means
from hostler.control.api.requests.call import ApiCall, new_id
from hostler.control.api.requests.route import Reply, Routes
from hostler.control.api.routes.lists import (
    EDIT,
    GET,
    LabelTexts,
    PageQuery,
    PastQuery,
    Short,
    WaitQuery,
    etag,
    read_labels,
)
from hostler.control.api.routes.operations import read_events
from hostler.control.api.routes.vm_creation import create_or_reject, wait_for_operation
from hostler.control.books import ledger
from hostler.control.schemas import Event, Migrate, Nothing, Page, Start, Vm, VmChanged, VmCreate, VmEdit
from hostler.control.services.explanations.vm_explanations import answer_decision
from hostler.control.services.hosts import unavailable_hosts
from hostler.control.services.visible_names import readable
from hostler.control.services.vms import vm_changes
from hostler.control.services.vms.gangs import with_stopped_members
from hostler.control.services.vms.lost_vms import find_missing, missing_hosts
from hostler.control.services.vms.vm_views import show_vm
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.store.rows import vms as rows
from hostler.control.store.rows.vms import VmFilter
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
    """Filters for the list of VMs."""

    project: Annotated[Short, means("Only of this project.")] = ""
    state: Annotated[State | None, means("Only in this state.")] = None
    power: Annotated[Power | None, means("Only those with this desired power.")] = None
    host: Annotated[Short | None, means("Only on this host, by name or id; empty: those that are nowhere.")] = None
    gang: Annotated[Short | None, means("Only members of this gang.")] = None
    name: Annotated[Short | None, means("Only of this name.")] = None
    label: LabelTexts = field(default_factory=list)


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
    description=f"{_LATER} With on_unplaceable=fail it is placed at once, or waits while others are preempted for it "
    "(and fails if that does not help), or is rejected. Of several reasons the response has the first of these: "
    "invalid_strategy, agent_service_unavailable, no_available_agents, insufficient_resources.",
)
async def create(call: ApiCall) -> Reply:
    """Create a VM."""
    changed = await create_or_reject(call, call.body(VmCreate))
    return await _answer(call, changed)


@ROUTES.add("GET", "/v1/vms", "List VMs", query=VmQuery, answers={200: Page[Vm]}, permission="vm.read")
async def list_vms(call: ApiCall) -> Reply:
    """List VMs, oldest first."""
    asked, principal = call.ask(VmQuery), call.principal
    project = principal.limit_project(asked.project)
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
        said, missing = with_stopped_members(connection, books.gathers), find_missing(connection)
        return Page(
            items=[show_vm(ledger.read_row(row), said, books.tried_at, missing) for row in page.items], next=page.next
        )

    return Reply(200, await call.read(work))


@ROUTES.add("GET", "/v1/vms/{id}", "Get a VM", answers={200: Vm}, permission="vm.read", **GET)
async def get(call: ApiCall) -> Reply:
    """Get a VM."""
    return await _vm_reply(call, call.part("id"))


@ROUTES.add(
    "GET",
    "/v1/projects/{project}/vms/{name}",
    "Get a VM by its project and name",
    answers={200: Vm},
    permission="vm.read",
    description="All other routes of a VM take its id, which this answer has.",
    **GET,
)
async def get_by_name(call: ApiCall) -> Reply:
    """Get a VM by its project and name."""
    return await _vm_reply(call, f"{call.part('project')}/{call.part('name')}")


async def _vm_reply(call: ApiCall, identity: str) -> Reply:
    """Answer with a VM, found by its id or by project/name."""
    books = call.context.books

    def work(connection: Connection) -> Vm:
        stored = vm_changes.find(connection, identity, call.caller)
        said = with_stopped_members(connection, books.gathers)
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
async def edit(call: ApiCall) -> Reply:
    """Resize or edit a VM."""
    asked, identity, versions = call.body(VmEdit), call.part("id"), call.versions

    def work(connection: Connection) -> VmChanged:
        return vm_changes.edit(connection, identity, asked, call.caller, new_id, versions=versions)

    return await _write_change(call, work)


@ROUTES.add(
    "DELETE",
    "/v1/vms/{id}",
    "Delete a VM",
    permission="vm.delete",
    **_CHANGE,
)
async def delete(call: ApiCall) -> Reply:
    """Delete a VM with its disks."""
    return await _change_vm(call, vm_changes.delete)


@ROUTES.add(
    "POST",
    "/v1/vms/{id}/migrate",
    "Migrate a VM",
    body=Migrate,
    is_body_needed=False,
    permission="vm.change",
    **_CHANGE,
)
async def migrate(call: ApiCall) -> Reply:
    """Move a VM to another host."""
    return await _change_vm(call, partial(vm_changes.migrate, host=call.body(Migrate).host))


@ROUTES.add(
    "POST",
    "/v1/vms/{id}/cancel-migration",
    "Cancel a migration",
    body=Nothing,
    is_body_needed=False,
    permission="vm.change",
    **{**_CHANGE, "description": f"{_LATER} While its host is drained that needs the permission host.operate too."},
)
async def cancel_migration(call: ApiCall) -> Reply:
    """Cancel a migration, unless the VM has already arrived."""
    return await _change_vm(call, vm_changes.cancel_migration)


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
    async def handler(call: ApiCall) -> Reply:
        return await _change_vm(call, partial(vm_changes.power, verb=verb))


@ROUTES.add(
    "POST",
    "/v1/vms/{id}/start",
    "Start a VM",
    body=Start,
    is_body_needed=False,
    permission="vm.power",
    **{
        **_CHANGE,
        "description": f"{_LATER} A lost VM is rejected (hosts_missing) while hosts are silent, offline or not "
        "registered since a restore: they may still have it. With force, which needs the permission vm.force, it "
        "starts anyway.",
    },
)
async def start(call: ApiCall) -> Reply:
    """Start a VM."""
    return await _change_vm(call, partial(vm_changes.start, is_forced=call.body(Start).force))


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
    "Explain why a VM is on its host, or waits",
    answers={200: dict},
    permission="vm.read",
    refusals=(404,),
    description="The object that 'hostler explain -o json' prints. In addition it has seq, the number of the last log "
    "entry that it considers; the VM's state; now, its status in words that follow its name; and a hint if an "
    "operator has to act. If if_started is true, the VM is stopped and is explained as if it were started now. A VM "
    "that has a place is explained as if it were placed now: if_placed_now names the best host. pinned says what "
    "keeps it on one host: host, by (host_name, disk or stopped) and text; null if nothing does. If the VM was "
    "preempted and waits since then, made_way says why. If it was moved to its host to make room for another VM, "
    "moved_for says for which.",
)
async def decision(call: ApiCall) -> Reply:
    """Explain why a VM is on its host, or why it waits."""
    stored = await call.read(lambda connection: vm_changes.find(connection, call.part("id"), call.caller))
    may_read, unavailable = readable(call.principal), await call.read(unavailable_hosts.read)
    missing = await call.read(missing_hosts) if stored.vm.is_lost else ()
    with call.context.asking.explanation(stored.vm.project, call.now_ns):
        question = partial(
            answer_decision, vm=stored.vm, may_read=may_read, unavailable=unavailable, missing=tuple(missing)
        )
        return Reply(200, msgspec.Raw(await call.context.books.explain(question)))


@ROUTES.add(
    "GET",
    "/v1/vms/{id}/events",
    "Get the events of a VM",
    query=PastQuery,
    answers={200: Page[Event]},
    permission="vm.read",
    refusals=(404, 410),
)
async def vm_events(call: ApiCall) -> Reply:
    """Return the events of a VM."""
    asked = call.ask(PastQuery)

    def work(connection: Connection) -> Page[Event]:
        stored = vm_changes.find(connection, call.part("id"), call.caller)
        found = read_events(connection, call, asked, asked.after, project=stored.vm.project, subject=stored.vm.id)
        return Page(items=found.items, next="" if found.is_last else str(found.after))

    return Reply(200, await call.read(work))


async def _change_vm(call: ApiCall, wish: Callable[..., VmChanged]) -> Reply:
    """Apply one of the changes of a VM that take the same parameters."""
    identity, versions = call.part("id"), call.versions
    return await _write_change(
        call, lambda connection: wish(connection, identity, call.caller, new_id, versions=versions)
    )


async def _write_change(call: ApiCall, work: Callable[[Connection], VmChanged]) -> Reply:
    return await _answer(call, await call.write_once(work, VmChanged))


async def _answer(call: ApiCall, changed: VmChanged) -> Reply:
    changed = await wait_for_operation(call, changed, call.ask(WaitQuery).wait)
    is_over = changed.operation.state != "pending"
    return Reply(200 if is_over else 202, changed, etag(changed.vm.version))
