"""What can be done to a VM from its page: which verbs make sense now, the questions before them, and doing them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.responses import Response

from hostler.control.api.requests.call import new_id
from hostler.control.api.requests.problems import status_of
from hostler.control.fleet.hosts.driver_capabilities import check_migration
from hostler.control.schemas import VmChanged
from hostler.control.services.callers import Caller
from hostler.control.services.vms import vm_changes
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.vms.state import Vm, is_settled
from hostler.errors import HostlerError, InputError
from hostler.web.page_requests import PageRequest

__all__ = ["NEEDS_ANSWER", "VERBS", "VmAction", "actions_for", "ask", "do", "is_coming", "why_not_migrate"]


class VmAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a page. A direct one is done without a confirmation."""

    name: str
    title: str
    permission: str
    powers: tuple[str, ...]  # what must be wanted now for it to make sense
    is_direct: bool = False
    is_dangerous: bool = False
    needs_host: bool = False  # it must be somewhere
    lines: tuple[str, ...] = ()


VERBS = {
    one.name: one
    for one in (
        VmAction(name="start", title="Start", permission="vm.power", powers=("stopped",), is_direct=True),
        VmAction(name="resume", title="Resume", permission="vm.power", powers=("paused",), is_direct=True),
        VmAction(
            name="stop",
            title="Stop",
            permission="vm.power",
            powers=("running", "paused"),
            lines=("It keeps its disks and its host, and gives its CPU and memory back unless they are reserved.",),
        ),
        VmAction(
            name="restart",
            title="Restart",
            permission="vm.power",
            powers=("running",),
            needs_host=True,
            lines=("It is stopped and started again on the same host.",),
        ),
        VmAction(
            name="pause",
            title="Pause",
            permission="vm.power",
            powers=("running",),
            needs_host=True,
            lines=("Its processors stand still; it keeps its memory and its room.",),
        ),
        VmAction(name="resize", title="Resize", permission="vm.change", powers=("running", "paused", "stopped")),
        VmAction(
            name="migrate",
            title="Migrate",
            permission="vm.change",
            powers=("running", "stopped"),
            needs_host=True,
            lines=("It moves to another host: while it runs, or as it is stopped.",),
        ),
        VmAction(
            name="delete",
            title="Delete",
            permission="vm.delete",
            powers=("running", "paused", "stopped"),
            is_dangerous=True,
            lines=("It goes for good, with its disks.",),
        ),
    )
}

NEEDS_ANSWER = ("start", "resume", "restart", "pause", "migrate")  # what only a host that answers can do


def actions_for(vm: Vm, visit: PageRequest) -> list[VmAction]:
    """Return what the visitor may do to a VM as it is. The service may still reject it with a reason."""
    return [verb for verb in VERBS.values() if _makes_sense(verb, vm) and visit.may(verb.permission, vm.project)]


def is_coming(vm: Vm, verb: str) -> bool:
    """Say whether the change that a visitor requested is still open, and still wanted."""
    if verb == "create":
        return vm.home is None and vm.power != "absent"
    if verb == "migrate":
        return vm.moving is not None
    power = {"stop": "stopped", "pause": "paused", "resize": vm.power, "delete": "absent"}.get(verb, "running")
    return vm.power == power and not is_settled(vm, vm.generation)


def why_not_migrate(connection: Connection, vm: Vm) -> HostlerError | None:
    """Return why a VM cannot leave its host as both are, whichever host it is to go to; None where it can."""
    try:
        check_migration(connection, vm, "")
    except HostlerError as error:
        return error
    return None


async def ask(visit: PageRequest) -> Response:
    """Ask whether to do it: the same page as a dialog, or by itself."""
    verb = _verb(visit)
    return await _question(visit, verb, None)


async def do(visit: PageRequest) -> Response:
    """Do it, and go back to the VM."""
    verb, identity = _verb(visit), visit.part("id")
    fields = await visit.form()

    def work(connection: Connection, caller: Caller) -> VmChanged:
        if verb.is_dangerous:
            name = vm_changes.find(connection, identity, caller).vm.name
            if fields.get("confirm", "").strip() != name:
                raise InputError(f"type {name} to confirm", hint="it cannot be taken back")
        return _DOING[verb.name](connection, identity, fields.get("host", "").strip(), caller)

    try:
        await visit.write(work)
    except HostlerError as error:
        return await _question(visit, verb, error)
    if verb.name == "delete":  # a VM that was nowhere is gone already
        return visit.go(f"/vms?done=delete&vm={identity}")
    return visit.go(f"/vms/{identity}?done={verb.name}")


async def _question(visit: PageRequest, verb: VmAction, error: HostlerError | None) -> Response:
    identity, caller = visit.part("id"), visit.caller

    def work(connection: Connection) -> tuple[Vm, list[str]]:
        stored = vm_changes.find(connection, identity, caller)
        caller.principal.check(verb.permission, stored.vm.project)
        home = stored.vm.home.name if stored.vm.home is not None else ""
        is_choosing = verb.name == "migrate" and visit.may("host.read")
        names = [row.name for row in hosts.all_alive(connection)] if is_choosing else []
        return stored.vm, [name for name in names if name != home]

    vm, targets = await visit.read(work)
    return await visit.render(
        "question.html",
        title=f"{verb.title} {vm.name}?",
        twin=f"/v1/vms/{identity}",
        status=status_of(error) if error is not None else 200,
        error=error,
        lines=verb.lines,
        action=f"/vms/{identity}/{verb.name}",
        targets=targets if verb.name == "migrate" else None,
        confirm=vm.name if verb.is_dangerous else "",
        danger=verb.is_dangerous,
        button=verb.title,
        back=f"/vms/{identity}",
    )


def _makes_sense(verb: VmAction, vm: Vm) -> bool:
    is_there = vm.home is not None or not verb.needs_host
    can_move = verb.name != "migrate" or (vm.spec.is_movable and not (vm.power == "stopped" and vm.spec.reserve))
    is_calm = verb.name not in ("migrate", "resize") or vm.moving is None
    return vm.power in verb.powers and is_there and can_move and is_calm


def _verb(visit: PageRequest) -> VmAction:
    return VERBS[visit.part("verb")]


def _power(name: str) -> Callable[[Connection, str, str, Caller], VmChanged]:
    return lambda connection, identity, _host, caller: vm_changes.power(connection, identity, caller, new_id, verb=name)


_DOING: dict[str, Callable[[Connection, str, str, Caller], VmChanged]] = {
    **{name: _power(name) for name in ("start", *vm_changes.POWER)},
    "migrate": lambda connection, identity, host, caller: vm_changes.migrate(
        connection, identity, caller, new_id, host=host
    ),
    "delete": lambda connection, identity, _host, caller: vm_changes.delete(connection, identity, caller, new_id),
}
