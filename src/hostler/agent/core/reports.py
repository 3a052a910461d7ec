"""What an agent reports: the content, from the core's state, and its difference to what was answered before. Pure.

``worker`` makes the content, ``process`` sends the difference. What was not answered is sent again, so a lost report
costs only time.
"""

from __future__ import annotations

import msgspec

from hostler.agent.core.plan import ActionPlan, unordered_use
from hostler.agent.core.settlement import is_known
from hostler.agent.core.state import AgentState, DriverVerb
from hostler.agent.messages import (
    LONGEST_NAME,
    MOST_TAKEN,
    MOST_UNKNOWN,
    Departed,
    Report,
    Taken,
    Tries,
    Trouble,
    UnavailableStorage,
    VmReport,
    shorten,
    shorten_trouble,
)
from hostler.agent.messages import State as VmState

__all__ = ["ReportContent", "difference", "gone", "reports", "taken", "unavailable", "unknown", "unknown_left_out"]


class ReportContent(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be reported about a host at one moment."""

    version: int = 0
    vms: dict[str, VmReport] = {}
    gone: tuple[Departed, ...] = ()
    unknown: tuple[str, ...] = ()
    unknown_left_out: int = 0
    taken: tuple[Taken, ...] = ()
    refused_teardown: int = 0
    unavailable: tuple[UnavailableStorage, ...] = ()  # told by a registration only: it changes what a host can take


def difference(
    told: ReportContent,
    now: ReportContent,
    *,
    boot: str,
    agent: str,
    epoch: int,
    sequence: int,
    watched_vms: int = 0,
    tries: Tries | None = None,
) -> Report:
    """Return the report that leads from ``told`` to ``now``."""
    departed = _departed(told, now)
    return Report(
        boot=boot,
        agent=agent,
        epoch=epoch,
        sequence=sequence,
        orders=now.version,
        vms=tuple(report for vm, report in now.vms.items() if told.vms.get(vm) != report),
        gone=tuple(one.vm for one in departed),
        departed=departed,
        unknown=now.unknown if _unknown_of(now) != _unknown_of(told) else None,
        unknown_left_out=now.unknown_left_out,
        taken=now.taken if now.taken != told.taken else None,
        refused_teardown=now.refused_teardown,
        is_watched=watched_vms > 0,
        watched_vms=watched_vms,
        tries=tries,
    )


def _unknown_of(content: ReportContent) -> tuple[tuple[str, ...], int]:
    return content.unknown, content.unknown_left_out


def _departed(told: ReportContent, now: ReportContent) -> tuple[Departed, ...]:
    """Return the VMs that departed since, by an order that was not reported yet, or without a known order."""
    found = {vm: Departed(vm=vm, generation=one.generation) for vm, one in told.vms.items() if vm not in now.vms}
    known = set(told.gone)
    found |= {one.vm: one for one in now.gone if one not in known or one.vm in told.vms}
    return tuple(one for _, one in sorted(found.items()))


_DOING: dict[DriverVerb, VmState] = {
    DriverVerb.CREATE: "creating",
    DriverVerb.START: "starting",
    DriverVerb.STOP: "stopping",
    DriverVerb.RESTART: "stopping",
    DriverVerb.DELETE: "stopping",
    DriverVerb.SEND: "leaving",
}


def reports(state: AgentState, plan: ActionPlan) -> dict[str, VmReport]:
    """Return a report of every VM with an order or a record, without those that are gone."""
    vms = {**state.records, **state.orders}
    return {vm: _report(state, vm, plan.refusals.get(vm)) for vm in vms if not _is_gone(state, vm)}


def gone(state: AgentState) -> tuple[Departed, ...]:
    """Return the VMs that were deleted by an order, as long as their orders are known."""
    return tuple(
        Departed(vm=vm, generation=record.generation)
        for vm, record in sorted(state.records.items())
        if _is_gone(state, vm)
    )


def unknown(state: AgentState) -> tuple[str, ...]:
    """Return the VMs without an order: they are reported and never touched.

    If there are very many, some are omitted, but those of this agent last: the control plane may know them.
    """
    found = _unknown(state)
    told = sorted(found, key=lambda vm: (not state.found[vm].is_ours, vm))[:MOST_UNKNOWN]
    return tuple(sorted(shorten(vm, LONGEST_NAME) for vm in told))


def unknown_left_out(state: AgentState) -> int:
    """Return how many unknown VMs ``unknown`` omits."""
    return max(len(_unknown(state)) - MOST_UNKNOWN, 0)


def _unknown(state: AgentState) -> list[str]:
    return [vm for vm in state.found if not is_known(state, vm)]


def taken(state: AgentState) -> tuple[Taken, ...]:
    """Return what VMs without a known order take of this host."""
    return tuple(
        Taken(
            vm=shorten(vm, LONGEST_NAME),
            # More than any host has takes all of it: an absurd number must not keep the message from being taken.
            cpu_millis=min(amounts.cpu_millis, MOST_TAKEN),
            memory_bytes=min(amounts.memory_bytes, MOST_TAKEN),
            disk_bytes=min(amounts.disk_bytes, MOST_TAKEN),
        )
        for vm, amounts in sorted(unordered_use(state).items())
    )


def unavailable(state: AgentState) -> tuple[UnavailableStorage, ...]:
    """Return the storages that are out of reach."""
    return tuple(
        UnavailableStorage(name=shorten(name, LONGEST_NAME), why=shorten(why))
        for name, why in sorted(state.unavailable.items())
    )


def _is_gone(state: AgentState, vm: str) -> bool:
    record, order = state.records.get(vm), state.orders.get(vm)
    return record is not None and record.is_gone and (order is None or order.power == "absent")


def _report(state: AgentState, vm: str, refusal: Trouble | None) -> VmReport:
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
        trouble=shorten_trouble(trouble) if trouble is not None else None,
        failed_generation=failed,
        landing_address=landing.address if landing is not None else "",
        landing_secret=landing.secret if landing is not None else "",
    )


def _state_of(state: AgentState, vm: str) -> VmState:
    action, found = state.busy.get(vm), state.found.get(vm)
    if action is not None and action.verb in _DOING:
        return _DOING[action.verb]
    return found.power if found is not None and found.is_ours else "absent"
