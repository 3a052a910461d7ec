"""The form that creates a VM. Errors are shown beside their fields, and typed values are kept."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from hostler.control.api.requests.call import ApiCall
from hostler.control.api.routes.vm_creation import create_or_reject
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.schemas import Problem
from hostler.control.settings import policies_for
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.errors import HostlerError
from hostler.web.lists import project_names
from hostler.web.page_requests import PageRequest, problem_of
from hostler.web.pages.vm_form import MOST_DISKS, VmForm, field_of_problem, read_vm_form, request_of
from hostler.web.verdicts import explanation_of, verdicts_of

__all__ = ["ask", "do"]

_OWN = "default"  # the project that is always there


class _Choices(msgspec.Struct, frozen=True):
    projects: list[str]
    storages: list[str]


async def ask(visit: PageRequest) -> Response:
    """Show the form; an address may fill in some of it."""
    return await _form(visit, read_vm_form(visit.request.query_params, visit.principal.project or _OWN), None)


async def do(visit: PageRequest) -> Response:
    """Create the VM and show it, or say what is wrong; a form that asks for one more disk comes back with it."""
    fields = await visit.form()
    typed = read_vm_form(fields, visit.principal.project or _OWN)
    if "add-disk" in fields:
        return await _form(visit, typed.with_another_disk, None, focus=f"disk-{len(typed.disks)}-size")
    typed = typed.without_gaps
    try:
        asked = request_of(typed)
        call = ApiCall(
            context=visit.context,
            request=visit.request,
            principal=visit.principal,
            request_id=visit.caller.request_id,
            now_ns=visit.now_ns,
            asked=asked,
            query=None,
        )
        changed = await create_or_reject(call, asked)
    except HostlerError as error:
        return await _form(visit, typed, problem_of(visit, error))
    return visit.go(f"/vms/{changed.vm.id}?done=create")


async def _form(visit: PageRequest, typed: VmForm, problem: Problem | None, *, focus: str = "") -> Response:
    visit.principal.check("vm.create", visit.principal.project)
    choices = await visit.read(lambda connection: _choices(connection, visit))
    place = field_of_problem(problem) if problem is not None else ""
    decision = problem.decision if problem is not None else None
    return await visit.render(
        "vm_new.html",
        title="Create a VM",
        twin="/v1/vms",
        status=problem.status if problem is not None else 200,
        typed=typed if typed.disks else typed.with_another_disk,
        problem=problem,
        place=place,
        focus=place or focus or ("" if problem is not None else "name"),
        verdicts=verdicts_of(explanation_of(decision)) if decision is not None else None,
        projects=list(dict.fromkeys((*choices.projects, typed.project))),
        storages=choices.storages,
        strategies=[policy.name for policy in policies_for(visit.context.settings)],
        default_strategy=visit.context.settings.strategy,
        most_disks=MOST_DISKS,
        sees_hosts=visit.may("host.read"),
    )


def _choices(connection: Connection, visit: PageRequest) -> _Choices:
    rows = hosts.all_alive(connection) if visit.may("host.read") else []
    storages = sorted({name for row in rows for name in read_body(row).storages})
    return _Choices(project_names(connection, visit.caller), storages)
