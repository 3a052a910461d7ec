"""The form that creates a VM. What is refused stands beside its field, and what was typed stays."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from hostler.control.api.calls import Call
from hostler.control.api.placing import create_or_refuse
from hostler.control.api.shapes import Problem
from hostler.control.fleet.hosts import read_body
from hostler.control.settings import policies_for
from hostler.control.store import Connection, hosts
from hostler.errors import HostlerError
from hostler.web.desk import Visit
from hostler.web.lists import project_names
from hostler.web.problems import problem_of
from hostler.web.verdicts import explanation_of, verdicts_of
from hostler.web.vm_form import MOST_DISKS, TypedVm, place_of, request_of, typed_vm

__all__ = ["ask", "do"]

_OWN = "default"  # the project that is always there


class _Choices(msgspec.Struct, frozen=True):
    projects: list[str]
    storages: list[str]


async def ask(visit: Visit) -> Response:
    """Show the form; an address may fill in some of it."""
    return await _form(visit, typed_vm(visit.request.query_params, visit.principal.project or _OWN), None)


async def do(visit: Visit) -> Response:
    """Create the VM and show it, or say what is wrong; a form that asks for one more disk comes back with it."""
    fields = await visit.form()
    typed = typed_vm(fields, visit.principal.project or _OWN)
    if "add-disk" in fields:
        return await _form(visit, typed.with_another_disk, None, focus=f"disk-{len(typed.disks)}-size")
    typed = typed.without_gaps
    try:
        asked = request_of(typed)
        call = Call(
            context=visit.context,
            request=visit.request,
            principal=visit.principal,
            request_id=visit.caller.request_id,
            now_ns=visit.now_ns,
            asked=asked,
            query=None,
        )
        changed = await create_or_refuse(call, asked)
    except HostlerError as error:
        return await _form(visit, typed, problem_of(visit, error))
    return visit.go(f"/vms/{changed.vm.id}?done=create")


async def _form(visit: Visit, typed: TypedVm, problem: Problem | None, *, focus: str = "") -> Response:
    visit.principal.check("vm.create", visit.principal.project)
    choices = await visit.read(lambda connection: _choices(connection, visit))
    place = place_of(problem) if problem is not None else ""
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


def _choices(connection: Connection, visit: Visit) -> _Choices:
    rows = hosts.all_alive(connection) if visit.may("host.read") else []
    storages = sorted({name for row in rows for name in read_body(row).storages})
    return _Choices(project_names(connection, visit.caller), storages)
