"""What follows from a state without an action: fulfilled orders, overcome setbacks, permitted deletions.

``decisions`` settles after every change. The guard against accidental teardown is here: removing more than three VMs,
and more than a quarter of the host's VMs, at once needs a permission that comes with the orders. Pure.
"""

from __future__ import annotations

import msgspec

from hostler.agent.core.state import AgentState, Record
from hostler.agent.core.verbs import is_satisfied, may_absorb_restarts
from hostler.agent.driver import ObservedVm
from hostler.agent.messages import Order

__all__ = ["is_known", "outstanding_teardown", "settle_state", "unavailable_for"]

_TEARDOWN_COUNT = 3
_TEARDOWN_SHARE = 4  # one in so many


def settle_state(state: AgentState) -> AgentState:
    """Return the state with everything in it that follows from the rest."""
    if not (state.has_looked and state.is_inventory_known):
        return state
    records, setbacks = dict(state.records), dict(state.setbacks)
    for vm, order in state.orders.items():
        found = state.found.get(vm)
        if vm in state.busy or vm in state.doubts or (found is not None and not found.is_ours):
            continue
        if (found is None or found.is_out_of_reach) and unavailable_for(state, order) is not None:
            continue  # it may be there all the same
        records[vm] = record = _settled_record(order, records.get(vm), found)
        if vm in setbacks and is_satisfied(order, record, found):
            del setbacks[vm]
    landings = {
        vm: landing
        for vm, landing in state.landings.items()
        if vm in state.found and state.found[vm].power == "landing"
    }
    return msgspec.structs.replace(
        state, records=records, setbacks=setbacks, landings=landings, cleared=_cleared(state)
    )


def is_known(state: AgentState, vm: str) -> bool:
    """Say whether the agent may report a VM that was found: ordered, or created by this agent."""
    found = state.found.get(vm)
    return (found is None or found.is_ours) and (vm in state.orders or vm in state.records)


def unavailable_for(state: AgentState, order: Order) -> str | None:
    """Return the unavailable storage that a VM needs; None if there is none.

    An order to remove a VM does not say where its disks are: its record does, which lies beside the local disks.
    """
    found = state.found.get(order.vm)
    is_hidden = order.power == "absent" or (found is not None and (found.is_out_of_reach or found.is_stray))
    needed = {disk.storage for disk in order.disks} | ({""} if is_hidden else set())
    return min(needed & state.unavailable.keys(), default=None)


def outstanding_teardown(state: AgentState) -> list[str]:
    """Return the VMs that are ordered absent and still here."""
    return [vm for vm, order in state.orders.items() if order.power == "absent" and _is_here(state, vm)]


def _settled_record(order: Order, record: Record | None, found: ObservedVm | None) -> Record:
    if record is None:  # never heard of: a VM that is there was made by an agent whose record is lost
        record = Record(vm=order.vm, restarts=order.restarts)
    elif record.is_gone and order.power != "absent":
        record = Record(vm=order.vm, restarts=order.restarts, generation=record.generation)
    changes: dict[str, object] = {}
    if record.when_silent != order.when_silent:
        changes["when_silent"] = order.when_silent
    if record.made is None and found is not None and found.power in ("stopped", "running", "paused"):
        changes["made"] = _as_found(order, found)
    if order.restarts > record.restarts and may_absorb_restarts(order, found):
        changes["restarts"] = order.restarts
    record = msgspec.structs.replace(record, **changes) if changes else record
    if not is_satisfied(order, record, found):
        return record
    if order.power == "absent":
        return Record(vm=order.vm, generation=order.generation, restarts=record.restarts, is_gone=True)
    return msgspec.structs.replace(record, generation=order.generation)


def _as_found(order: Order, found: ObservedVm) -> Order:
    """Return the order that would have produced what was found; values that a driver does not report count as right.

    An order to remove what another host has contains no sizes: until it is gone, what was found counts in full.
    """
    return msgspec.structs.replace(
        order,
        migration=None,
        cpu_millis=(found.cpu_count * 1000 if order.power == "absent" else 0) or order.cpu_millis,
        cpu_count=found.cpu_count or order.cpu_count,
        memory_bytes=found.memory_bytes or order.memory_bytes,
    )


def _cleared(state: AgentState) -> frozenset[str]:
    outstanding = outstanding_teardown(state)
    vms = sum(1 for vm in state.found if is_known(state, vm))
    is_bulk = len(outstanding) > _TEARDOWN_COUNT and len(outstanding) * _TEARDOWN_SHARE > vms
    if state.may_tear_down or not is_bulk:
        return frozenset(outstanding)
    return state.cleared & frozenset(outstanding)


def _is_here(state: AgentState, vm: str) -> bool:
    found = state.found.get(vm)
    return found is not None and found.is_ours
