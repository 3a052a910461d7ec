"""Explanations of VMs that stay on their host: growing VMs, and stopped ones with a disk on their host. Pure.

The engine does not know resizes: it is asked for the additional room on one host. The user named no host, and asked
for a total size.
"""

from __future__ import annotations

import msgspec

from hostler.control.services.visible_names import reduction_text
from hostler.control.vms.reasons import NOT_ITS_HOST, to_own_host_reason
from hostler.control.vms.state import Booking, Vm
from hostler.model import CPU, MEMORY, Cure, CureChange, DecisionNote, Explanation, Failure, HostVerdict
from hostler.model.notes import GROWS_IN_PLACE
from hostler.model.vocabulary import with_notes

__all__ = ["pin_of", "with_own_host_only", "with_total_amounts"]

_replace = msgspec.structs.replace


def with_own_host_only(found: Explanation, vm: Vm) -> Explanation:
    """Return an explanation that rejects other hosts because they are not the VM's own, unless the user named one.

    Cures on other hosts are left out: a separate question asks for them.
    """
    home = vm.home
    if home is None:
        return found
    if found.cure is not None and found.cure.host != home.name:
        found = _replace(found, cure=None)
    if vm.spec.host_name:
        return found
    decision = found.decision
    reasons = tuple(_replace(one, reason=to_own_host_reason(one.reason)) for one in decision.reasons)
    return _replace(
        found,
        decision=_replace(decision, reasons=reasons),
        verdicts=tuple(_verdict(one) for one in found.verdicts),
        near_misses=tuple(name for name in found.near_misses if name == home.name),
    )


def pin_of(vm: Vm) -> dict[str, str] | None:
    """Return what keeps a VM on one host: its specification, a disk there, or that it stopped there. None: nothing."""
    if vm.spec.host_name:
        host = vm.spec.host_name
        return {"host": host, "by": "host_name", "text": f"its specification names host {host}"}
    if vm.home is None or vm.is_lost or vm.power == "absent":
        return None
    host = vm.home.name
    if not vm.spec.is_movable:
        return {"host": host, "by": "disk", "text": f"it has a disk on {host}"}
    if vm.run is None or not vm.run.is_bound:
        text = f"it starts on {host}, where it was stopped; 'hostler vm migrate {vm.project}/{vm.name}' moves it"
        return {"host": host, "by": "stopped", "text": text}
    return None


def with_total_amounts(found: Explanation, vm: Vm) -> Explanation:
    """Return the explanation of a VM that grows, with total amounts instead of the difference."""
    if vm.home is None or vm.run is None:
        return found
    has = {CPU: vm.run.size.cpu_millis, MEMORY: vm.run.size.memory_bytes}
    verdicts = tuple(_total(one, vm.home, has) for one in found.verdicts)
    return _replace(
        found,
        decision=with_notes(found.decision, (*found.decision.notes, DecisionNote(GROWS_IN_PLACE))),
        verdicts=verdicts,
        cure=None if found.cure is None else _cure(found.cure, verdicts),
    )


def _verdict(verdict: HostVerdict) -> HostVerdict:
    """Return a verdict in those words. Other failures of another host do not matter."""
    failures = tuple(_replace(one, reason=to_own_host_reason(one.reason)) for one in verdict.failures)
    elsewhere = tuple(one for one in failures if one.reason.code == NOT_ITS_HOST)
    return _replace(verdict, failures=elsewhere or failures)


def _total(verdict: HostVerdict, home: Booking, has: dict[str, int]) -> HostVerdict:
    if verdict.host != home.name:
        return verdict
    return _replace(verdict, failures=tuple(_with(one, has.get(one.reason.subject, 0)) for one in verdict.failures))


def _with(failure: Failure, has: int) -> Failure:
    """Return a failure on the VM's own host with amounts as if its own room were free."""
    if failure.needed is None or failure.free is None:
        return failure
    return _replace(failure, needed=failure.needed + has, free=failure.free + has)


def _cure(cure: Cure, verdicts: tuple[HostVerdict, ...]) -> Cure:
    failures = [failure for one in verdicts if one.host == cure.host for failure in one.failures]
    return _replace(cure, changes=tuple(_change(one, failures) for one in cure.changes))


def _change(change: CureChange, failures: list[Failure]) -> CureChange:
    for failure in failures:
        is_same = change.kind == "reduce_request" and change.subject == failure.reason.subject
        if is_same and failure.free is not None and failure.needed and failure.missing is not None:
            return _replace(change, text=reduction_text(failure), relative=failure.missing / failure.needed)
    return change
