"""The agent's decisions, pure: orders, what was found and what came of actions go in; what to do next comes out.

No clock, no I/O, no event loop: time is passed in as nanoseconds. ``process`` drives it: ``take`` orders, ``observe``
the host, ask for ``next_actions``, ``begin`` each, make the records durable, carry it out, say what came of it
(``after``). A crash between any two of these loses nothing: the next agent starts from the records and a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

import msgspec

from hostler.agent.admission import NOTHING
from hostler.agent.drivers.driver import Found, Power
from hostler.agent.messages import HostSize, Order, Orders, Trouble
from hostler.agent.planning import needs, plan
from hostler.agent.settling import settled
from hostler.agent.state import Action, Outcome, Record, Setback, State, Verb, with_entry, without_entry

__all__ = ["after", "begin", "first_state", "next_actions", "next_due", "observe", "reregistered", "take"]
__all__ += ["with_hanging_look"]

_SECOND = 1_000_000_000
_FIRST_RETRY = _SECOND
_LAST_RETRY = 60 * _SECOND

_POWER_AFTER: dict[Verb, str] = {
    Verb.CREATE: "stopped",
    Verb.START: "running",
    Verb.STOP: "stopped",
    Verb.RESTART: "stopped",
    Verb.PAUSE: "paused",
    Verb.RESUME: "running",
    Verb.AWAIT_LANDING: "landing",
    Verb.SEND: "left",
}


def first_state(limit: HostSize, records: Iterable[Record], *, is_inventory_known: bool = True) -> State:
    """Return the state of an agent that just started."""
    by_vm = {record.vm: record for record in records}
    return State(limit=limit, records=by_vm, is_inventory_known=is_inventory_known)


def reregistered(state: State, limit: HostSize) -> State:
    """Return the state after a registration: the control plane may count its orders anew."""
    return settled(msgspec.structs.replace(state, version=0, limit=limit))


def take(state: State, orders: Orders) -> State:
    """Take orders in. Older ones than those known change nothing; a VM that a full list leaves out is held as it is."""
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
    return settled(
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
    state: State,
    found: Iterable[Found],
    *,
    unsure: Set[str] = frozenset(),
    is_for_doubts: bool = False,
    unavailable: Mapping[str, str] = MappingProxyType({}),
) -> State:
    """Take in a look at the host. ``unsure``: VMs that something was done about meanwhile, so it may be old news.

    ``is_for_doubts``: it was not yet time to look, but something had failed. What is blocked waits on: or its own
    failure would let it try again at once, without end. ``unavailable``: storages that the look could not reach.
    """
    seen = {entry.vm: entry for entry in found if entry.vm not in unsure}
    kept = {vm: entry for vm, entry in state.found.items() if vm in unsure}
    setbacks = state.setbacks if is_for_doubts else _opened(state.setbacks)
    doubts = {vm: amounts for vm, amounts in state.doubts.items() if vm in unsure}
    hidden = _hidden(state, {*seen, *unsure}) if "" in unavailable else {}
    return settled(
        msgspec.structs.replace(
            state,
            has_looked=True,
            found={**hidden, **kept, **seen},
            setbacks=setbacks,
            doubts=doubts,
            unavailable=dict(unavailable),
        )
    )


def with_hanging_look(state: State, why: str) -> State:
    """Return the state while a look hangs: VMs stay as they were seen last, and those with local disks are left alone.

    It is reported as unavailable storage. So the control plane places nothing here and takes no VM for absent.
    """
    return msgspec.structs.replace(state, unavailable={**state.unavailable, "": why})


def next_actions(state: State, now: int) -> list[Action]:
    """Return what to do next: at most one action per VM, and none for a VM that one is under way for."""
    return plan(state, now).actions


def next_due(state: State, now: int) -> int | None:
    """Return when something that failed is to be tried again; None where nothing waits for that."""
    waits = (setback.retry_at for setback in state.setbacks.values() if setback.trouble.kind == "transient")
    return min((at for at in waits if at > now), default=None)


def begin(state: State, action: Action) -> State:
    """Occupy the VM's lane. The records of the new state must be durable before the action is carried out."""
    state = msgspec.structs.replace(state, busy=with_entry(state.busy, action.vm, action))
    order = action.order
    if order is None:
        return state
    record = state.records[action.vm]
    if action.verb is Verb.SEND:
        record = msgspec.structs.replace(record, sent=order.generation)
    elif action.verb is Verb.DELETE and order.keeps_shared:
        record = msgspec.structs.replace(record, kept=order.generation)
    elif action.verb is Verb.RESIZE:
        record = msgspec.structs.replace(record, resizing=msgspec.structs.replace(order, migration=None))
    return msgspec.structs.replace(state, records=with_entry(state.records, action.vm, record))


def after(state: State, action: Action, outcome: Outcome, now: int) -> State:
    """Take in what came of an action and free its lane."""
    state = msgspec.structs.replace(state, busy=without_entry(state.busy, action.vm))
    if outcome.trouble is not None:
        return _after_failure(state, action, outcome.trouble, now)
    if action.verb is Verb.FORGET:
        return msgspec.structs.replace(
            state,
            records=without_entry(state.records, action.vm),
            setbacks=without_entry(state.setbacks, action.vm),
        )
    return settled(_after_success(state, action, outcome))


def _hidden(state: State, seen: Set[str]) -> dict[str, Found]:
    """Return the VMs that this agent made and that a look could not find because their storage is out of reach."""
    return {
        vm: Found(vm=vm, power=_power_out_of_sight(state, record), is_out_of_reach=True)
        for vm, record in state.records.items()
        if vm not in seen and record.made is not None and not record.is_gone
    }


def _power_out_of_sight(state: State, record: Record) -> Power:
    """Return the state of a VM without a process: stopped, unless it was sent away or waited to land."""
    before = state.found.get(record.vm)
    if before is not None and before.power in ("landing", "left"):
        return before.power
    order = state.orders.get(record.vm)
    generation = order.generation if order is not None else record.generation
    return "left" if record.sent and record.sent >= generation else "stopped"


def _opened(setbacks: Mapping[str, Setback]) -> dict[str, Setback]:
    """Return setbacks of which none waits for a look any longer."""
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


def _after_failure(state: State, action: Action, trouble: Trouble, now: int) -> State:
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


def _after_success(state: State, action: Action, outcome: Outcome) -> State:
    vm, order = action.vm, action.order
    changes: dict[str, object] = {"setbacks": without_entry(state.setbacks, vm)}
    found = state.found.get(vm)
    if action.verb is Verb.DELETE:
        changes["found"] = without_entry(state.found, vm)
        changes["landings"] = without_entry(state.landings, vm)
        record = msgspec.structs.replace(state.records[vm], made=None, resizing=None)
        changes["records"] = with_entry(state.records, vm, record)
    elif action.verb is Verb.RESIZE:
        pass
    elif found is not None and found.is_stray:
        changes["found"] = without_entry(state.found, vm)  # it ended, and nothing else is left of it
    else:
        seen = found if found is not None else Found(vm=vm, power="stopped")
        changes["found"] = with_entry(state.found, vm, msgspec.structs.replace(seen, power=_POWER_AFTER[action.verb]))
    if action.verb in (Verb.CREATE, Verb.RESIZE) and order is not None:
        made = msgspec.structs.replace(order, migration=None)
        record = msgspec.structs.replace(state.records[vm], made=made, resizing=None)
        changes["records"] = with_entry(state.records, vm, record)
    if outcome.landing is not None:
        changes["landings"] = with_entry(state.landings, vm, outcome.landing)
    return msgspec.structs.replace(state, **changes)
