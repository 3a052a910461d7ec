"""The form that gives a VM other CPU and memory.

It carries a mark of what its reader saw. If the VM was changed since, the reader sees that and decides again.
The version that REST has for its If-Match would not do: placing a VM and its agent's reports raise that too, and no one
wants to be told of those here.
"""

from __future__ import annotations

import hashlib

import msgspec
from starlette.responses import Response

from hostler.control.api.requests.call import new_id
from hostler.control.schemas import Problem, VmChanged, VmEdit
from hostler.control.services.callers import Caller
from hostler.control.services.vms import vm_changes
from hostler.control.services.vms.vm_views import show_vm
from hostler.control.store import Connection
from hostler.control.store.errors import StaleVersionError
from hostler.control.vms.state import Vm
from hostler.errors import HostlerError
from hostler.model import CPU, MEMORY
from hostler.web.page_requests import PageRequest, problem_of
from hostler.web.pages.vm_creation import field_of_problem
from hostler.web.texts import spec_amount_text

__all__ = ["ask", "do"]


class SizeForm(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    cpu: str
    memory: str


async def ask(visit: PageRequest) -> Response:
    """Show the form with the size that the VM has."""
    return await _form(visit, None, None)


async def do(visit: PageRequest) -> Response:
    """Resize the VM and go back to it."""
    fields, identity = await visit.form(), visit.part("id")
    typed = SizeForm(**{name: fields.get(name, "").strip()[:100] for name in SizeForm.__struct_fields__})

    def work(connection: Connection, caller: Caller) -> VmChanged | None:
        vm = vm_changes.find(connection, identity, caller, "vm.change").vm
        _check_seen(vm, fields.get("seen", ""))
        if (typed.cpu, typed.memory) == (vm.spec.cpu, vm.spec.memory):
            return None
        asked = VmEdit(spec={"cpu": typed.cpu, "memory": typed.memory})
        return vm_changes.edit(connection, identity, asked, caller, new_id)

    try:
        changed = await visit.write(work)
    except HostlerError as error:
        return await _form(visit, typed, problem_of(visit, error, has_match=True))
    return visit.go(f"/vms/{identity}" + ("?done=resize" if changed is not None else ""))


def _check_seen(vm: Vm, seen: str) -> None:
    if seen != _mark(vm):
        size = f"{spec_amount_text(vm.spec.cpu, CPU)} CPU and {spec_amount_text(vm.spec.memory, MEMORY)}"
        hint = f"it is to be {vm.power} with {size} now; check it and decide again"
        raise StaleVersionError(f"VM {vm.name} was changed by another user meanwhile", hint=hint)


def _mark(vm: Vm) -> str:
    """Return a mark that differs as soon as the desired state of a VM changes."""
    return hashlib.sha256(msgspec.json.encode((vm.power, vm.spec))).hexdigest()[:16]


async def _form(visit: PageRequest, typed: SizeForm | None, problem: Problem | None) -> Response:
    identity, caller = visit.part("id"), visit.caller
    stored = await visit.read(lambda connection: vm_changes.find(connection, identity, caller, "vm.change"))
    vm = stored.vm
    place = field_of_problem(problem) if problem is not None else ""
    return await visit.render(
        "vm_resize.html",
        title=f"Resize {vm.name}",
        twin=f"/v1/vms/{identity}",
        status=problem.status if problem is not None else 200,
        vm=show_vm(stored),
        seen=_mark(vm),
        typed=typed or SizeForm(cpu=str(vm.spec.cpu), memory=str(vm.spec.memory)),
        problem=problem,
        place=place if place in SizeForm.__struct_fields__ else "",
    )
