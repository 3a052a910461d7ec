"""Explanations of VMs that stay where they are: those that grow, and stopped ones with a disk on their host. Pure.

The engine is asked for room on one host, and for what a VM grows by, since it knows nothing of resizes. Whoever reads
it named no host, and asked for a size.
"""

from __future__ import annotations

import msgspec

from hostler.control.services.discretion import less_of
from hostler.control.vms.reasons import NOT_ITS_HOST, of_its_host
from hostler.control.vms.state import Booking, Vm
from hostler.model import CPU, MEMORY, Change, Cure, Explanation, Failure, HostVerdict

__all__ = ["in_total", "staying"]

_IN_TOTAL = "it grows on its host; amounts are all that it would have there"
_replace = msgspec.structs.replace


def staying(found: Explanation, vm: Vm) -> Explanation:
    """Return an explanation that says of other hosts that they are not the VM's own, where its owner named none.

    What would help on another host is left out in any case: it is asked for on its own.
    """
    home = vm.home
    if home is None:
        return found
    if found.cure is not None and found.cure.host != home.name:
        found = _replace(found, cure=None)
    if vm.spec.host_name:
        return found
    decision = found.decision
    reasons = tuple(_replace(one, reason=of_its_host(one.reason)) for one in decision.reasons)
    return _replace(
        found,
        decision=_replace(decision, reasons=reasons),
        verdicts=tuple(_verdict(one) for one in found.verdicts),
        near_misses=tuple(name for name in found.near_misses if name == home.name),
    )


def in_total(found: Explanation, vm: Vm) -> Explanation:
    """Return the explanation of what a VM grows by, with amounts of all that it would have then."""
    if vm.home is None or vm.run is None:
        return found
    has = {CPU: vm.run.size.cpu_millis, MEMORY: vm.run.size.memory_bytes}
    verdicts = tuple(_total(one, vm.home, has) for one in found.verdicts)
    note = found.decision.note
    return _replace(
        found,
        decision=_replace(found.decision, note=f"{note}; {_IN_TOTAL}" if note else _IN_TOTAL),
        verdicts=verdicts,
        cure=None if found.cure is None else _cure(found.cure, verdicts),
    )


def _verdict(verdict: HostVerdict) -> HostVerdict:
    """Return a verdict in those words; whatever else another host lacks does not matter."""
    failures = tuple(_replace(one, reason=of_its_host(one.reason)) for one in verdict.failures)
    elsewhere = tuple(one for one in failures if one.reason.code == NOT_ITS_HOST)
    return _replace(verdict, failures=elsewhere or failures)


def _total(verdict: HostVerdict, home: Booking, has: dict[str, int]) -> HostVerdict:
    if verdict.host != home.name:
        return verdict
    return _replace(verdict, failures=tuple(_with(one, has.get(one.reason.subject, 0)) for one in verdict.failures))


def _with(failure: Failure, has: int) -> Failure:
    """Return what is missing on the VM's own host, as if its own room there were free."""
    if failure.needed is None or failure.free is None:
        return failure
    return _replace(failure, needed=failure.needed + has, free=failure.free + has)


def _cure(cure: Cure, verdicts: tuple[HostVerdict, ...]) -> Cure:
    failures = [failure for one in verdicts if one.host == cure.host for failure in one.failures]
    return _replace(cure, changes=tuple(_change(one, failures) for one in cure.changes))


def _change(change: Change, failures: list[Failure]) -> Change:
    for failure in failures:
        is_same = change.kind == "reduce_request" and change.subject == failure.reason.subject
        if is_same and failure.free is not None and failure.needed and failure.missing is not None:
            return _replace(change, text=less_of(failure), relative=failure.missing / failure.needed)
    return change
