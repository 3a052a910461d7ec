"""The form that gives a VM other CPU and memory.

It carries a mark of what its reader saw. Where somebody else changed the VM since, the reader is told and decides anew.
The version that REST has for its If-Match would not do: placing a VM and its agent's reports raise that too, and nobody
wants to be told of those here.
"""

from __future__ import annotations

import hashlib

import msgspec
from starlette.responses import Response

from hostler.control.api.calls import new_id
from hostler.control.api.shapes import Problem, VmChanged, VmEdit
from hostler.control.services import vms
from hostler.control.services.callers import Caller
from hostler.control.services.showing import show_vm
from hostler.control.store import Connection
from hostler.control.store.errors import StaleVersionError
from hostler.control.vms.state import Vm
from hostler.errors import HostlerError
from hostler.model import CPU, MEMORY
from hostler.web.desk import Visit
from hostler.web.problems import problem_of
from hostler.web.vm_form import place_of
from hostler.web.wording import asked_text

__all__ = ["ask", "do"]


class TypedSize(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    cpu: str
    memory: str


async def ask(visit: Visit) -> Response:
    """Show the form with the size that the VM has."""
    return await _form(visit, None, None)


async def do(visit: Visit) -> Response:
    """Resize the VM and go back to it."""
    fields, identity = await visit.form(), visit.part("id")
    typed = TypedSize(**{name: fields.get(name, "").strip()[:100] for name in TypedSize.__struct_fields__})

    def work(connection: Connection, caller: Caller) -> VmChanged | None:
        vm = vms.find(connection, identity, caller, "vm.change").vm
        _check_seen(vm, fields.get("seen", ""))
        if (typed.cpu, typed.memory) == (vm.spec.cpu, vm.spec.memory):
            return None
        asked = VmEdit(spec={"cpu": typed.cpu, "memory": typed.memory})
        return vms.edit(connection, identity, asked, caller, new_id)

    try:
        changed = await visit.write(work)
    except HostlerError as error:
        return await _form(visit, typed, problem_of(visit, error, has_match=True))
    return visit.go(f"/vms/{identity}" + ("?done=resize" if changed is not None else ""))


def _check_seen(vm: Vm, seen: str) -> None:
    if seen != _mark(vm):
        size = f"{asked_text(vm.spec.cpu, CPU)} CPU and {asked_text(vm.spec.memory, MEMORY)}"
        hint = f"it is to be {vm.power} with {size} now; look at it and decide anew"
        raise StaleVersionError(f"VM {vm.name} was changed by somebody else meanwhile", hint=hint)


def _mark(vm: Vm) -> str:
    """Return what is different as soon as somebody wishes something else of a VM."""
    return hashlib.sha256(msgspec.json.encode((vm.power, vm.spec))).hexdigest()[:16]


async def _form(visit: Visit, typed: TypedSize | None, problem: Problem | None) -> Response:
    identity, caller = visit.part("id"), visit.caller
    stored = await visit.read(lambda connection: vms.find(connection, identity, caller, "vm.change"))
    vm = stored.vm
    place = place_of(problem) if problem is not None else ""
    return await visit.render(
        "vm_resize.html",
        title=f"Resize {vm.name}",
        twin=f"/v1/vms/{identity}",
        status=problem.status if problem is not None else 200,
        vm=show_vm(stored),
        seen=_mark(vm),
        typed=typed or TypedSize(cpu=str(vm.spec.cpu), memory=str(vm.spec.memory)),
        problem=problem,
        place=place if place in TypedSize.__struct_fields__ else "",
    )
