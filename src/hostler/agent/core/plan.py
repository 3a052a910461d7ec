"""Which actions start now: what each VM needs, without what must wait, is rejected or does not fit. Pure.

Allocations are computed from the scan plus running actions. So a claim stands as long as its action runs, and what a
stop or a shrink gives back counts when it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import msgspec

from hostler.agent.core.admission import (
    NOTHING,
    Amounts,
    HostAllocations,
    size_of,
    what_a_running_vm_takes,
    what_a_stopped_vm_takes,
)
from hostler.agent.core.settlement import outstanding_teardown, unavailable_for
from hostler.agent.core.state import Action, AgentState, DriverVerb
from hostler.agent.core.verbs import choose, with_disks_made_before
from hostler.agent.driver import Landing, ObservedVm, StorageUnavailableError
from hostler.agent.messages import Order, Trouble
from hostler.model import CPU, MEMORY, STORAGE, format_resource

__all__ = ["ActionPlan", "allocations_of", "needs", "plan", "unordered_use"]

_NAMED = 5  # VMs, in a text
_LIVELY = (
    DriverVerb.START,
    DriverVerb.RESUME,
    DriverVerb.RESTART,
    DriverVerb.AWAIT_LANDING,
)  # not for a VM that silence stops, in silence


class ActionPlan(msgspec.Struct, frozen=True):
    """The actions to start, the VMs rejected for now with the reason, and deletions that need permission."""

    actions: list[Action]
    refusals: dict[str, Trouble]
    refused_teardown: int


def plan(state: AgentState, now: int) -> ActionPlan:
    """Decide for every VM; the same state and time give the same plan."""
    if not (state.has_looked and state.is_inventory_known):
        return ActionPlan([], {}, 0)
    ledger = allocations_of(state)
    actions: list[Action] = []
    refusals: dict[str, Trouble] = {}
    for vm, order in state.orders.items():
        found = state.found.get(vm)
        if found is not None and not found.is_ours:
            refusals[vm] = _not_ours(vm)
            continue
        if (storage := unavailable_for(state, order)) is not None:
            refusals[vm] = _out_of_reach(vm, storage, state.unavailable[storage])
            continue
        verb = None if _must_wait(state, vm, now) else _verb(state, order, found)
        if verb is None and found is not None and found.is_stray and order.power != "absent" and vm not in state.busy:
            refusals[vm] = _stray(vm, found)
        if verb is None or (verb in _LIVELY and order.when_silent == "stop" and now >= state.silent_at):
            continue
        wanted = needs(verb, order, found)
        why = ledger.claim(vm, wanted) if wanted != NOTHING else ""
        if why:
            refusals[vm] = _no_room(vm, why, unordered_use(state))
        else:
            if verb is DriverVerb.CREATE:
                order = with_disks_made_before(order, state.records[vm])
            actions.append(Action(verb=verb, vm=vm, order=order, landing=_landing(verb, order)))
    actions += [Action(verb=DriverVerb.FORGET, vm=vm) for vm in state.records if _is_forgotten(state, vm)]
    refused = [vm for vm in outstanding_teardown(state) if vm not in state.cleared]
    return ActionPlan(actions, refusals, len(refused))


def allocations_of(state: AgentState) -> HostAllocations:
    """Return a host's allocations: what VMs have, and what actions that run, or have no known outcome, may take."""
    ledger = HostAllocations(size_of(state.limit), is_known=state.is_inventory_known)
    for vm in {**state.found, **state.busy, **state.doubts}:
        ledger.hold(vm, _has(state, vm))
    return ledger


def unordered_use(state: AgentState) -> dict[str, Amounts]:
    """Return what VMs take here that have no known order.

    The agent knows that of its own VMs only after it has heard all orders.
    """
    vms = {vm: _has(state, vm) for vm in state.found if vm not in state.orders and _has_no_order(state, vm)}
    return {vm: amounts for vm, amounts in vms.items() if amounts != NOTHING}


def _has_no_order(state: AgentState, vm: str) -> bool:
    if vm in state.records and state.found[vm].is_ours:
        return state.has_all_orders and vm not in state.outdated
    return True


def _has(state: AgentState, vm: str) -> Amounts:
    found, record, order = state.found.get(vm), state.records.get(vm), state.orders.get(vm)
    made = record.made if record is not None and record.made is not None else order
    has = NOTHING
    if found is not None and made is None:  # unknown to us, but it takes its part of the host all the same
        has = Amounts(found.cpu_count * 1000, found.memory_bytes) if _is_alive(found) else NOTHING
    elif found is not None and made is not None:
        takes = what_a_running_vm_takes if _is_alive(found) else what_a_stopped_vm_takes
        has = takes(made)
        if record is not None and record.resizing is not None:
            has = has.at_least(takes(record.resizing))
    action = state.busy.get(vm)
    if action is not None:
        has = has.at_least(needs(action.verb, action.order, found))
    return has.at_least(state.doubts.get(vm, NOTHING))


def needs(verb: DriverVerb, order: Order | None, found: ObservedVm | None) -> Amounts:
    """Return what an action may make a VM take that was found like this."""
    if order is None:
        return NOTHING
    if verb in (DriverVerb.START, DriverVerb.AWAIT_LANDING) or (
        verb is DriverVerb.RESIZE and found is not None and _is_alive(found)
    ):
        return what_a_running_vm_takes(order)
    return what_a_stopped_vm_takes(order) if verb in (DriverVerb.CREATE, DriverVerb.RESIZE) else NOTHING


def _is_alive(found: ObservedVm) -> bool:
    return found.power in ("running", "paused", "landing")


def _verb(state: AgentState, order: Order, found: ObservedVm | None) -> DriverVerb | None:
    verb = choose(order, state.records[order.vm], found, has_landing=order.vm in state.landings)
    if verb is DriverVerb.DELETE and order.power == "absent" and order.vm not in state.cleared:
        return None
    return verb


def _must_wait(state: AgentState, vm: str, now: int) -> bool:
    if vm in state.busy or vm in state.doubts:
        return True
    setback = state.setbacks.get(vm)
    if setback is None:
        return False
    return setback.trouble.kind == "permanent" or setback.is_until_sync or setback.retry_at > now


def _landing(verb: DriverVerb, order: Order) -> Landing | None:
    if verb is not DriverVerb.SEND or order.migration is None:
        return None
    return Landing(address=order.migration.address, secret=order.migration.secret)


def _is_forgotten(state: AgentState, vm: str) -> bool:
    """Say whether a record is obsolete: the VM is not here, and the control plane does not know it either."""
    is_unheard_of = state.has_all_orders and vm not in state.orders and vm not in state.outdated
    return is_unheard_of and vm not in state.found and vm not in state.busy and vm not in state.doubts


def _not_ours(vm: str) -> Trouble:
    return Trouble(
        kind="permanent",
        code="not_ours",
        message=f"a VM named {vm} is on this host and was not made by this agent",
        hint="it is not touched; remove it there, or order the VM to another host",
    )


def _out_of_reach(vm: str, storage: str, why: str) -> Trouble:
    place = f"the storage {storage}" if storage else "the place of local disks"
    return Trouble(
        kind="blocked",
        code=StorageUnavailableError.code,
        message=f"{vm} is left as it is: {place} of this host is unavailable: {why}",
        hint="mount it again on that host: its agent then continues",
    )


def _stray(vm: str, found: ObservedVm) -> Trouble:
    process = f" ({found.detail})" if found.detail else ""
    return Trouble(
        kind="blocked",
        code="record_missing",
        message=f"{vm} runs on this host{process}, but its record and local disks are gone from the file system",
        hint="save its data from inside the guest, then delete it; a VM without local disks can be restarted instead",
    )


def _no_room(vm: str, why: str, others: Mapping[str, Amounts]) -> Trouble:
    message, hint = f"{vm} does not fit on this host: {why}", "it is tried again as soon as room appears"
    if others:
        message += f"; {_taken_by(others)}"
        hint = f"remove VMs that are not needed there, or move this VM to another host; {hint}"
    return Trouble(kind="blocked", code="no_room", message=message, hint=hint)


def _taken_by(others: Mapping[str, Amounts]) -> str:
    """Say what unordered VMs take here: the control plane's allocations show that room as free."""
    total = reduce(Amounts.plus, others.values(), NOTHING)
    amounts = ((CPU, total.cpu_millis), (MEMORY, total.memory_bytes), (STORAGE, total.disk_bytes))
    texts = [f"{name} {format_resource(name, amount)}" for name, amount in amounts if amount]
    names = ", ".join(sorted(others)[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
    return f"VMs without an order here take {', '.join(texts)}: {names}"
