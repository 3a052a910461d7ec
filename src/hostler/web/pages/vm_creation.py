"""The form that creates a VM: its fields as typed, and the REST request for them.

Errors are shown beside their fields, and typed values are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from hostler.control.api.requests.call import ApiCall
from hostler.control.api.routes.vm_creation import create_or_reject
from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.schemas import Problem, VmCreate
from hostler.control.settings import policies_for
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.vms.names import find_name_error
from hostler.errors import HostlerError, InputError
from hostler.web.lists import project_names
from hostler.web.page_requests import PageRequest, problem_of
from hostler.web.request_forms import pairs_of, whole_number
from hostler.web.verdicts import explanation_of, verdicts_of

__all__ = ["DiskForm", "VmForm", "ask", "do", "field_of_problem", "read_vm_form", "request_of"]

_MOST_DISKS = 16
_MOST_TEXT = 1024
_LEAST_PRIORITY, _MOST_PRIORITY = -(2**31), 2**31 - 1
_AT = re.compile(r" - at `\$\.(?:spec\.)?([^`]+)`$")
_BEGINS = re.compile(r"([a-z_]+(?:\[\d+\])?(?:\.[a-z_0-9]+)*): ")
_DISK = re.compile(r"disks\[(\d+)\](?:\.(size|storage|image(?:\.sha256)?))?")
_BY_CODE = {"name_taken": "name", "invalid_strategy": "strategy", "not_found": "project", "forbidden": "project"}
_OWN = "default"  # the project that is always there


class DiskForm(msgspec.Struct, frozen=True, kw_only=True):
    """One row of disks."""

    size: str = ""
    storage: str = ""
    image: str = ""
    sha256: str = ""


class VmForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form. A row of disks with empty fields is no disk."""

    name: str = ""
    project: str = "default"
    cpu: str = "2"
    memory: str = "4Gi"
    priority: str = "0"
    strategy: str = ""
    gang: str = ""
    labels: str = ""
    on_unplaceable: str = "wait"
    disks: tuple[DiskForm, ...] = (DiskForm(),)

    @property
    def with_another_disk(self) -> VmForm:
        """Return it with one more row to type into."""
        return msgspec.structs.replace(self, disks=(*self.disks, DiskForm())[:_MOST_DISKS])

    @property
    def without_gaps(self) -> VmForm:
        """Return it without empty rows between those of disks, so that a row is where the request has its disk."""
        return msgspec.structs.replace(self, disks=tuple(one for one in self.disks if one != DiskForm()))


def read_vm_form(fields: Mapping[str, str], project: str = "default") -> VmForm:
    """Return the form with the fields that were sent, and defaults for the others."""
    default = VmForm(project=project)
    found = {
        name: fields.get(name, getattr(default, name)).strip()[:_MOST_TEXT]
        for name in default.__struct_fields__
        if name != "disks"
    }
    disks = tuple(_typed_disk(fields, at) for at in range(_MOST_DISKS) if f"disk-{at}-size" in fields)
    return VmForm(**found, disks=disks or default.disks)


def request_of(typed: VmForm) -> VmCreate:
    """Return the REST request for the form; InputError names the field."""
    spec: dict[str, object] = {
        "cpu": typed.cpu,
        "memory": typed.memory,
        "disks": [_disk(disk) for disk in typed.without_gaps.disks],
        "priority": whole_number("priority", typed.priority or "0", _LEAST_PRIORITY, _MOST_PRIORITY),
        "strategy": typed.strategy,
        "gang": typed.gang,
        "labels": pairs_of("labels", typed.labels),
    }
    body = {"name": typed.name, "project": typed.project, "spec": spec, "on_unplaceable": typed.on_unplaceable}
    try:
        return msgspec.convert(body, VmCreate)
    except msgspec.ValidationError as error:
        if (refused := find_name_error(str(error), body)) is not None:
            raise refused from error
        raise InputError(str(error), hint="correct that field; /docs lists the fields") from error


def field_of_problem(problem: Problem) -> str:
    """Return the name of the field that a problem is about, or an empty name."""
    found = _AT.search(problem.detail) or _BEGINS.match(problem.detail)
    place = found[1] if found is not None else _BY_CODE.get(problem.code, "")
    disk = _DISK.match(place)
    if disk is not None:
        what = {None: "size", "image.sha256": "sha256"}.get(disk[2], disk[2])
        return f"disk-{disk[1]}-{what}"
    if place == "disks":
        return "disk-0-size"
    return place if place in VmForm.__struct_fields__ else ""


def _typed_disk(fields: Mapping[str, str], at: int) -> DiskForm:
    parts = DiskForm.__struct_fields__
    return DiskForm(**{part: fields.get(f"disk-{at}-{part}", "").strip()[:_MOST_TEXT] for part in parts})


def _disk(typed: DiskForm) -> dict[str, object]:
    disk: dict[str, object] = {"size": typed.size, "storage": typed.storage}
    if typed.image or typed.sha256:
        is_address = typed.image.startswith(("https://", "http://"))
        disk["image"] = {"url" if is_address else "path": typed.image, "sha256": typed.sha256}
    return disk


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
        most_disks=_MOST_DISKS,
        sees_hosts=visit.may("host.read"),
    )


def _choices(connection: Connection, visit: PageRequest) -> _Choices:
    rows = hosts.all_alive(connection) if visit.may("host.read") else []
    storages = sorted({name for row in rows for name in read_body(row).storages})
    return _Choices(project_names(connection, visit.caller), storages)
