"""The agent's decisions: orders, observations and outcomes go in, the next actions come out.

No clock, no I/O, no event loop: time is passed in as nanoseconds. ``process`` drives it: ``take`` orders, ``observe``
the host, ask for ``next_actions``, ``begin`` each, make the records durable, carry it out, and report its outcome
(``after_outcome``). A crash between any two of these loses nothing: the next agent starts from the records and a scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

import msgspec

from hostler.agent.core.admission import NOTHING
from hostler.agent.core.plan import needs, plan
from hostler.agent.core.settlement import settle_state
from hostler.agent.core.state import (
    Action,
    ActionOutcome,
    AgentState,
    DriverVerb,
    Record,
    Setback,
    with_entry,
    without_entry,
)
from hostler.agent.driver import ObservedVm, Power
from hostler.agent.messages import HostSize, Order, Orders, Trouble

__all__ = ["after_outcome", "after_registration", "begin", "first_state", "next_actions", "next_due", "observe", "take"]
__all__ += ["with_hanging_look"]

_SECOND = 1_000_000_000
_FIRST_RETRY = _SECOND
_LAST_RETRY = 60 * _SECOND

_POWER_AFTER: dict[DriverVerb, str] = {
    DriverVerb.CREATE: "stopped",
    DriverVerb.START: "running",
    DriverVerb.STOP: "stopped",
    DriverVerb.RESTART: "stopped",
    DriverVerb.PAUSE: "paused",
    DriverVerb.RESUME: "running",
    DriverVerb.AWAIT_LANDING: "landing",
    DriverVerb.SEND: "left",
}


def first_state(limit: HostSize, records: Iterable[Record], *, is_inventory_known: bool = True) -> AgentState:
    """Return the state of an agent that just started."""
    by_vm = {record.vm: record for record in records}
    return AgentState(limit=limit, records=by_vm, is_inventory_known=is_inventory_known)


def after_registration(state: AgentState, limit: HostSize) -> AgentState:
    """Return the state after a registration: the control plane may number its orders from the beginning."""
    return settle_state(msgspec.structs.replace(state, version=0, limit=limit))


def take(state: AgentState, orders: Orders) -> AgentState:
    """Take in orders. Older orders change nothing; a VM that a full list omits is left as it is."""
    if orders.version < state.version or not (orders.is_full or state.has_all_orders):
        return state
    taken = {} if orders.is_full else dict(state.orders)
    outdated = set() if orders.is_full else set(state.outdated)
    for order in orders.orders:
        known = state.orders.get(order.vm)
        if known is not None and (order.generation, order.restarts) < (known.generation, known.restarts):
            taken[order.vm] = known
        elif _is_outdated(order, state.records.get(order.vm)):
            outdated.add(order.vm)
        else:
            taken[order.vm] = order
    changed = {vm for vm in {*taken, *state.orders} if taken.get(vm) != state.orders.get(vm)}
    landing = {vm for vm in changed if vm in state.found and state.found[vm].power == "landing"}
    return settle_state(
        msgspec.structs.replace(
            state,
            version=orders.version,
            has_all_orders=state.has_all_orders or orders.is_full,
            orders=taken,
            outdated=frozenset(outdated),
            setbacks={vm: setback for vm, setback in state.setbacks.items() if vm not in changed},
            doubts={**dict.fromkeys(landing, NOTHING), **state.doubts},  # it may have landed since
            may_tear_down=orders.allows_bulk_teardown,
        )
    )


def observe(
    state: AgentState,
    found: Iterable[ObservedVm],
    *,
    unsure: Set[str] = frozenset(),
    is_for_doubts: bool = False,
    unavailable: Mapping[str, str] = MappingProxyType({}),
) -> AgentState:
    """Take in a scan of the host. ``unsure``: VMs with an action since the scan began, so it may be out of date.

    ``is_for_doubts``: the scan came early, after a failure. Blocked VMs wait on, or their own failure would let them
    try again at once, forever. ``unavailable``: storages that the scan could not reach.
    """
    seen = {entry.vm: entry for entry in found if entry.vm not in unsure}
    kept = {vm: entry for vm, entry in state.found.items() if vm in unsure}
    setbacks = state.setbacks if is_for_doubts else _opened(state.setbacks)
    doubts = {vm: amounts for vm, amounts in state.doubts.items() if vm in unsure}
    hidden = _hidden(state, {*seen, *unsure}) if "" in unavailable else {}
    return settle_state(
        msgspec.structs.replace(
            state,
            has_looked=True,
            found={**hidden, **kept, **seen},
            setbacks=setbacks,
            doubts=doubts,
            unavailable=dict(unavailable),
        )
    )


def with_hanging_look(state: AgentState, why: str) -> AgentState:
    """Return the state while a scan hangs: VMs stay as last seen, and those with local disks are left alone.

    It is reported as unavailable storage. So the control plane places nothing here and takes no VM for absent.
    """
    return msgspec.structs.replace(state, unavailable={**state.unavailable, "": why})


def next_actions(state: AgentState, now: int) -> list[Action]:
    """Return the next actions: at most one per VM, and none for a VM with a running action."""
    return plan(state, now).actions


def next_due(state: AgentState, now: int) -> int | None:
    """Return when a failed action is to be tried again; None if none waits for that."""
    waits = (setback.retry_at for setback in state.setbacks.values() if setback.trouble.kind == "transient")
    return min((at for at in waits if at > now), default=None)


def begin(state: AgentState, action: Action) -> AgentState:
    """Occupy the VM's lane. The records of the new state must be durable before the action starts."""
    state = msgspec.structs.replace(state, busy=with_entry(state.busy, action.vm, action))
    order = action.order
    if order is None:
        return state
    record = state.records[action.vm]
    if action.verb is DriverVerb.SEND:
        record = msgspec.structs.replace(record, sent=order.generation)
    elif action.verb is DriverVerb.DELETE and order.keeps_shared:
        record = msgspec.structs.replace(record, kept=order.generation)
    elif action.verb is DriverVerb.RESIZE:
        record = msgspec.structs.replace(record, resizing=msgspec.structs.replace(order, migration=None))
    return msgspec.structs.replace(state, records=with_entry(state.records, action.vm, record))


def after_outcome(state: AgentState, action: Action, outcome: ActionOutcome, now: int) -> AgentState:
    """Take in the outcome of an action and free its lane."""
    state = msgspec.structs.replace(state, busy=without_entry(state.busy, action.vm))
    if outcome.trouble is not None:
        return _after_failure(state, action, outcome.trouble, now)
    if action.verb is DriverVerb.FORGET:
        return msgspec.structs.replace(
            state,
            records=without_entry(state.records, action.vm),
            setbacks=without_entry(state.setbacks, action.vm),
        )
    return settle_state(_after_success(state, action, outcome))


def _hidden(state: AgentState, seen: Set[str]) -> dict[str, ObservedVm]:
    """Return VMs of this agent that a scan missed because their storage is out of reach."""
    return {
        vm: ObservedVm(vm=vm, power=_power_out_of_sight(state, record), is_out_of_reach=True)
        for vm, record in state.records.items()
        if vm not in seen and record.made is not None and not record.is_gone
    }


def _power_out_of_sight(state: AgentState, record: Record) -> Power:
    """Return the state of a VM without a process: stopped, unless it was sent away or waits to land."""
    before = state.found.get(record.vm)
    if before is not None and before.power in ("landing", "left"):
        return before.power
    order = state.orders.get(record.vm)
    generation = order.generation if order is not None else record.generation
    return "left" if record.sent and record.sent >= generation else "stopped"


def _opened(setbacks: Mapping[str, Setback]) -> dict[str, Setback]:
    """Return the setbacks of VMs that no longer wait for a scan."""
    return {
        vm: msgspec.structs.replace(setback, is_until_sync=False) if setback.is_until_sync else setback
        for vm, setback in setbacks.items()
    }


def _is_outdated(order: Order, record: Record | None) -> bool:
    if record is None:
        return False
    is_of_the_dead = record.is_gone and order.power != "absent" and order.generation == record.generation
    takes_what_is_kept = order.generation == record.kept and not order.keeps_shared
    return order.generation < max(record.generation, record.kept) or is_of_the_dead or takes_what_is_kept


def _after_failure(state: AgentState, action: Action, trouble: Trouble, now: int) -> AgentState:
    took = needs(action.verb, action.order, state.found.get(action.vm))
    state = msgspec.structs.replace(state, doubts=with_entry(state.doubts, action.vm, took))
    order = state.orders.get(action.vm)
    if action.order is None or order is None or order.generation != action.order.generation:
        return state  # what failed is not wanted any more
    before = state.setbacks.get(action.vm)
    failures = before.trouble.failures if before is not None else 0
    if trouble.kind != "blocked":
        failures += 1
    wait = min(_FIRST_RETRY << min(failures - 1, 16), _LAST_RETRY) if trouble.kind == "transient" else 0
    setback = Setback(
        trouble=msgspec.structs.replace(trouble, failures=failures),
        generation=order.generation,
        retry_at=now + wait,
        is_until_sync=trouble.kind == "blocked",
    )
    return msgspec.structs.replace(state, setbacks=with_entry(state.setbacks, action.vm, setback))


def _after_success(state: AgentState, action: Action, outcome: ActionOutcome) -> AgentState:
    vm, order = action.vm, action.order
    changes: dict[str, object] = {"setbacks": without_entry(state.setbacks, vm)}
    found = state.found.get(vm)
    if action.verb is DriverVerb.DELETE:
        changes["found"] = without_entry(state.found, vm)
        changes["landings"] = without_entry(state.landings, vm)
        record = msgspec.structs.replace(state.records[vm], made=None, resizing=None)
        changes["records"] = with_entry(state.records, vm, record)
    elif action.verb is DriverVerb.RESIZE:
        pass
    elif found is not None and found.is_stray:
        changes["found"] = without_entry(state.found, vm)  # it ended, and nothing else is left of it
    else:
        seen = found if found is not None else ObservedVm(vm=vm, power="stopped")
        changes["found"] = with_entry(state.found, vm, msgspec.structs.replace(seen, power=_POWER_AFTER[action.verb]))
    if action.verb in (DriverVerb.CREATE, DriverVerb.RESIZE) and order is not None:
        made = msgspec.structs.replace(order, migration=None)
        record = msgspec.structs.replace(state.records[vm], made=made, resizing=None)
        changes["records"] = with_entry(state.records, vm, record)
    if outcome.landing is not None:
        changes["landings"] = with_entry(state.landings, vm, outcome.landing)
    return msgspec.structs.replace(state, **changes)
