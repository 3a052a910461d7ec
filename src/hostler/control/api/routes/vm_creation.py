"""Creating a VM, and waiting for the results of changes: a decision, or the end of an operation.

A VM that must be placed at once waits for its decision and is rejected if there is no room.
"""

from __future__ import annotations

import time
from functools import partial

import msgspec

from hostler.control.api.requests.call import ApiCall, new_id
from hostler.control.books import ledger
from hostler.control.books.books import NoLeaderError
from hostler.control.books.ledger import StoredVm
from hostler.control.books.waiting_vms import QUOTA_FULL
from hostler.control.schemas import VmChanged, VmCreate
from hostler.control.services.errors import InsufficientResourcesError, NoAgentsError, NoDecisionError
from hostler.control.services.explanations.vm_explanations import answer_refusal
from hostler.control.services.explanations.what_ifs import guest_facts
from hostler.control.services.hosts import unavailable_hosts
from hostler.control.services.visible_names import readable
from hostler.control.services.vms import vm_changes
from hostler.control.services.vms.gangs import with_stopped_members
from hostler.control.services.vms.vm_views import show_operation, show_vm
from hostler.control.store import Connection
from hostler.control.store.rows import operations
from hostler.control.vms.guests import guest_spec
from hostler.control.vms.spec import size_of
from hostler.control.vms.state import Vm
from hostler.errors import HostlerError
from hostler.model.soft_constraints import ignored_soft_constraints

__all__ = ["create_or_reject", "wait_for_operation"]

_LOOK_S = 5.0  # polls in case a notice gets lost


async def create_or_reject(call: ApiCall, asked: VmCreate) -> VmChanged:
    """Create a VM. One that must be placed at once is waited for, and rejected if no host has room.

    The answer names soft constraints that the VM's strategy ignores.
    """
    return _with_ignored(call, await _create_or_reject(call, asked))


def _with_ignored(call: ApiCall, changed: VmChanged) -> VmChanged:
    spec, settings = changed.vm.spec, call.context.settings
    if not (spec.preferred_hosts or spec.preferred_affinity or spec.preferred_anti_affinity or spec.spread):
        return changed
    policy = settings.strategies.get(spec.strategy or settings.strategy)
    if policy is None:  # a strategy that is not declared any more: the VM waits, and says why
        return changed
    ignored = ignored_soft_constraints(policy, guest_spec(spec, changed.vm.project, size_of(spec)))
    return msgspec.structs.replace(changed, ignored=list(ignored))


async def _create_or_reject(call: ApiCall, asked: VmCreate) -> VmChanged:
    meters, strategy = call.context.meters, asked.spec.strategy or "default"

    if asked.on_unplaceable == "wait":
        changed = await _write_vm(call, asked)
        meters.placement(strategy, "accepted")
        return changed
    try:
        changed = await _place_or_reject(call, asked, await _write_if_led(call, asked))
    except InsufficientResourcesError:
        meters.placement(strategy, "insufficient_resources")
        raise
    except (NoAgentsError, NoDecisionError, NoLeaderError) as error:
        meters.placement(strategy, error.code)
        raise
    meters.placement(strategy, "placed")
    return changed


async def _write_vm(call: ApiCall, asked: VmCreate) -> VmChanged:
    most = call.context.settings.vms_each
    if call.has_key:
        return await call.write_once(
            lambda connection: vm_changes.create(connection, asked, call.caller, new_id, most=most), VmChanged
        )
    creation = vm_changes.Creation(asked=asked, caller=call.caller, ids=new_id, most=most)
    return await call.context.database.write_jointly(vm_changes.create_many, creation)


async def _write_if_led(call: ApiCall, asked: VmCreate) -> VmChanged:
    """Create the VM if there is a leader that can decide."""
    call.principal.check("vm.create", asked.project)
    # What can never be right comes before who is there.
    guest_facts("checked", asked.project, asked.name, asked.spec, call.caller.strategies)
    books = call.context.books
    if books.trouble:
        hint = "ask another replica, or let it wait: on_unplaceable=wait; the service's log says what is wrong"
        raise NoDecisionError("this replica cannot follow the log, so it sees no decision", hint=hint)
    if not books.is_ready:
        raise NoDecisionError("the service has not read its log yet", hint="try again in a moment")
    if not books.is_leader:
        await books.leader()
    return await _write_vm(call, asked)


async def _place_or_reject(call: ApiCall, asked: VmCreate, changed: VmChanged) -> VmChanged:
    identity = changed.vm.id
    stored = await _wait_for_decision(call, identity)
    if stored is None:
        stored = await call.write(lambda connection: vm_changes.give_up(connection, identity, call.caller))
        if stored.vm.is_gone:
            await _fail(call, changed.operation.id, "no decision in time")
            hint = "try again; if it happens again, check which replica leads"
            raise NoDecisionError(f"no decision within {call.context.settings.verdict_s:g} s", hint=hint)
    if _is_rejected(stored.vm):
        await _fail(call, changed.operation.id, stored.vm.why)
        raise await _rejection(call, asked, stored)
    return msgspec.structs.replace(changed, vm=show_vm(stored))


async def _rejection(call: ApiCall, asked: VmCreate, stored: StoredVm) -> InsufficientResourcesError:
    """Return the error, with the verdict of every host."""
    uid = f"refused-{stored.vm.id}"
    facts = guest_facts(uid, asked.project, asked.name, stored.vm.spec, call.caller.strategies)
    books, may_read, unavailable = call.context.books, readable(call.principal), await call.read(unavailable_hosts.read)
    question = partial(
        answer_refusal, facts=facts, uid=uid, project=asked.project, may_read=may_read, unavailable=unavailable
    )
    decision = await books.explain(question)
    message, cure = f"no host has room for VM {asked.name}: {stored.vm.why}", "free some room"
    if stored.vm.why.startswith(QUOTA_FULL):
        message = f"VM {asked.name} is not placed: {stored.vm.why}"
        cure = f"see 'hostler quota get {asked.project}', which an admin may raise"
    return InsufficientResourcesError(
        message,
        hint=f"ask for less, {cure}, or let it wait: on_unplaceable=wait",
        decision=msgspec.json.decode(decision),
    )


async def _fail(call: ApiCall, operation: str, why: str) -> None:
    """Mark the operation as failed. The error itself does not depend on it."""

    def work(connection: Connection) -> None:
        row = operations.get(connection, operation)
        body = msgspec.json.encode({"error": why})
        finished = row.finished_ns or call.now_ns
        operations.save(connection, msgspec.structs.replace(row, state="failed", body=body, finished_ns=finished))

    try:
        await call.write(work)
    except HostlerError as error:
        call.context.tell(f"request {call.request_id}: {error.message}")


async def wait_for_operation(call: ApiCall, changed: VmChanged, wait_s: float) -> VmChanged:
    """Return a change when its operation has ended, or when the time is over."""
    if wait_s <= 0 or changed.operation.state != "pending":
        return changed

    def look(connection: Connection) -> VmChanged:
        row = operations.get(connection, changed.operation.id)
        stored = ledger.load(connection, changed.vm.id)
        gathers = with_stopped_members(connection, call.context.books.gathers)
        return VmChanged(vm=show_vm(stored, gathers), operation=show_operation(row))

    end = time.monotonic() + wait_s
    with call.context.books.watch("vm", changed.vm.id) as news:
        while True:
            changed = await call.read(look)
            left = end - time.monotonic()
            if changed.operation.state != "pending" or left <= 0 or call.context.stopping.is_set():
                return changed
            await news.wait(min(left, _LOOK_S))


async def _wait_for_decision(call: ApiCall, identity: str) -> StoredVm | None:
    """Return a VM as soon as it is decided or gone; None if there is no decision in time."""
    end = time.monotonic() + call.context.settings.verdict_s
    with call.context.books.watch("vm", identity) as news:
        while True:
            stored = await call.read(lambda connection: ledger.load(connection, identity))
            if not stored.vm.is_undecided:
                return stored
            left = end - time.monotonic()
            if left <= 0 or call.context.stopping.is_set():
                return None
            await news.wait(min(left, _LOOK_S))


def _is_rejected(vm: Vm) -> bool:
    """Return whether a VM is gone because it was to be placed at once and no host had room."""
    return vm.is_gone and vm.fails_unplaced and bool(vm.why)
