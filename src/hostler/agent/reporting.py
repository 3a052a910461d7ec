"""What an agent says of its VMs, made from the core's state. Pure; used by ``process``."""

from __future__ import annotations

from hostler.agent.limits import LONGEST_NAME, MOST_TAKEN, MOST_UNKNOWN, shortened, shortened_trouble
from hostler.agent.messages import Departed, Taken, Trouble, UnavailableStorage, VmReport
from hostler.agent.messages import State as VmState
from hostler.agent.planning import Plan, unordered
from hostler.agent.settling import is_known
from hostler.agent.state import State, Verb

__all__ = ["gone", "reports", "taken", "unavailable", "unknown", "unknown_left_out"]

_DOING: dict[Verb, VmState] = {
    Verb.CREATE: "creating",
    Verb.START: "starting",
    Verb.STOP: "stopping",
    Verb.RESTART: "stopping",
    Verb.DELETE: "stopping",
    Verb.SEND: "leaving",
}


def reports(state: State, plan: Plan) -> dict[str, VmReport]:
    """Return a report of every VM that is ordered, recorded or both; those that are gone are left out."""
    vms = {**state.records, **state.orders}
    return {vm: _report(state, vm, plan.refusals.get(vm)) for vm in vms if not _is_gone(state, vm)}


def gone(state: State) -> tuple[Departed, ...]:
    """Return the VMs that were deleted because an order said so, as long as their orders are known."""
    return tuple(
        Departed(vm=vm, generation=record.generation)
        for vm, record in sorted(state.records.items())
        if _is_gone(state, vm)
    )


def unknown(state: State) -> tuple[str, ...]:
    """Return the VMs that nobody ordered here: they are told of and never touched.

    Of very many some are left out, but those last that this agent made: of them the control plane may know.
    """
    found = _unknown(state)
    told = sorted(found, key=lambda vm: (not state.found[vm].is_ours, vm))[:MOST_UNKNOWN]
    return tuple(sorted(shortened(vm, LONGEST_NAME) for vm in told))


def unknown_left_out(state: State) -> int:
    """Return how many unknown VMs ``unknown`` leaves out."""
    return max(len(_unknown(state)) - MOST_UNKNOWN, 0)


def _unknown(state: State) -> list[str]:
    return [vm for vm in state.found if not is_known(state, vm)]


def taken(state: State) -> tuple[Taken, ...]:
    """Return what VMs take of this host of which no order is known."""
    return tuple(
        Taken(
            vm=shortened(vm, LONGEST_NAME),
            # More than any host has takes all of it: an absurd number must not keep the message from being taken.
            cpu_millis=min(amounts.cpu_millis, MOST_TAKEN),
            memory_bytes=min(amounts.memory_bytes, MOST_TAKEN),
            disk_bytes=min(amounts.disk_bytes, MOST_TAKEN),
        )
        for vm, amounts in sorted(unordered(state).items())
    )


def unavailable(state: State) -> tuple[UnavailableStorage, ...]:
    """Return the storages that are out of reach."""
    return tuple(
        UnavailableStorage(name=shortened(name, LONGEST_NAME), why=shortened(why))
        for name, why in sorted(state.unavailable.items())
    )


def _is_gone(state: State, vm: str) -> bool:
    record, order = state.records.get(vm), state.orders.get(vm)
    return record is not None and record.is_gone and (order is None or order.power == "absent")


def _report(state: State, vm: str, refusal: Trouble | None) -> VmReport:
    record, setback, landing = state.records.get(vm), state.setbacks.get(vm), state.landings.get(vm)
    order = state.orders.get(vm)
    trouble, failed = (setback.trouble, setback.generation) if setback is not None else (None, 0)
    if refusal is not None and order is not None:  # made just now, so it is newer than what failed before
        trouble, failed = refusal, order.generation
    return VmReport(
        vm=vm,
        state=_state_of(state, vm),
        generation=record.generation if record is not None else 0,
        restarts=record.restarts if record is not None else 0,
        trouble=shortened_trouble(trouble) if trouble is not None else None,
        failed_generation=failed,
        landing_address=landing.address if landing is not None else "",
        landing_secret=landing.secret if landing is not None else "",
    )


def _state_of(state: State, vm: str) -> VmState:
    action, found = state.busy.get(vm), state.found.get(vm)
    if action is not None and action.verb in _DOING:
        return _DOING[action.verb]
    return found.power if found is not None and found.is_ours else "absent"
