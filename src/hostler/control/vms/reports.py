"""Applies agents' reports to a VM's bookings. Pure; any replica does it, in the transaction of the report.

Room returns to the engine only here: when the host reports that the VM has stopped, shrunk, left or gone. A report of a
generation that was never ordered from that host changes nothing. Owners get one event for each change of a VM's state.
"""

from __future__ import annotations

import re

import msgspec

from hostler.agent.driver import DiskMissingError, StorageUnavailableError
from hostler.agent.messages import VmReport
from hostler.control.vms.guests import departures, with_run
from hostler.control.vms.moves import (
    abort_move,
    apply_target_report,
    has_failed,
    leave_second_host,
    lose_second_host,
    lose_source,
)
from hostler.control.vms.orders import is_of_a_backup, order_for, power_at_home
from hostler.control.vms.settlement import DISK_GONE, HOST_GONE, leave_last_host, mark_gone, settle_vm
from hostler.control.vms.state import Vm, VmChange, state_of

__all__ = [
    "apply_absence", "apply_missing", "apply_report", "had_disk", "is_old_news", "lose_host", "mark_heard",
    "mark_unknown", "with_status_notice",
]  # fmt: skip

_replace = msgspec.structs.replace
_NEVER_MADE = ("", "absent", "creating")
_MADE = ("stopped", "starting", "running", "paused", "stopping")
_CAME_WITHOUT = "its host came back without it: its disk is gone"


def apply_report(vm: Vm, host: str, report: VmReport) -> VmChange:
    """Apply how a host found a VM; absent by its current order means gone."""
    return with_status_notice(vm, _reported(vm, host, _by_name(vm, report)), host)


def _by_name(vm: Vm, report: VmReport) -> VmReport:
    """Return a report whose problem calls the VM by its name: hosts only know its id, owners only its name.

    Paths and names on the host that merely contain the id stay, and so do hints: they may hold commands.
    """
    trouble = report.trouble
    if trouble is None or vm.id not in trouble.message:
        return report
    message = re.sub(rf"(?<![\w/.-]){re.escape(vm.id)}(?![\w/-])", lambda _: vm.name, trouble.message)
    return _replace(report, trouble=_replace(trouble, message=message))


def apply_absence(vm: Vm, host: str, generation: int = 0) -> VmChange:
    """Record that a host has nothing of the VM any more, by an order of that generation (0: unknown)."""
    return with_status_notice(vm, _gone(vm, host, generation), host)


def _reported(vm: Vm, host: str, report: VmReport) -> VmChange:
    if report.state == "absent" and report.generation:
        order = order_for(vm, host)
        if order is not None and order.power == "absent" and order.generation == report.generation:
            return _gone(vm, host)
    if vm.home is not None and vm.home.host == host:
        return _at_home(vm, report)
    if vm.other is not None and vm.other.host == host:
        return apply_target_report(vm, report)
    return VmChange(vm=vm)


def _gone(vm: Vm, host: str, generation: int = 0) -> VmChange:
    if is_old_news(vm, host, generation):
        return VmChange(vm=vm)
    if vm.other is not None and vm.other.host == host:
        return leave_second_host(vm)
    if vm.home is None or vm.home.host != host or power_at_home(vm) != "absent":
        return VmChange(vm=vm)
    facts = departures(vm.run, vm.disk)
    vm = _without_home(vm)
    if vm.power == "absent":
        return VmChange(vm=mark_gone(vm) if vm.other is None else vm, facts=facts)
    if vm.power == "stopped":
        return VmChange(vm=_replace(vm, observed_generation=vm.generation), facts=facts)
    vm, fact = with_run(vm)
    return VmChange(vm=vm, facts=(*facts, fact))


def is_old_news(vm: Vm, host: str, generation: int) -> bool:
    """Say whether an absence belongs to an older order than the host's current one: the VM may be back."""
    order = order_for(vm, host)
    return bool(generation) and order is not None and generation != order.generation


def mark_unknown(vm: Vm) -> VmChange:
    """Note that its host is silent: the VM's state is unknown, and nothing else follows."""
    return VmChange(vm=vm if vm.is_unknown or vm.home is None else _replace(vm, is_unknown=True))


def mark_heard(vm: Vm) -> VmChange:
    """Note that its host is heard again."""
    return VmChange(vm=_replace(vm, is_unknown=False) if vm.is_unknown else vm)


def lose_host(vm: Vm, host: str, disk_gone: str = DISK_GONE) -> VmChange:
    """Record proof that a host runs nothing any more. Never call this without such proof.

    A VM that may start elsewhere does, as soon as no other host has anything of it. A VM with a local disk there is
    lost, until it is deleted. ``disk_gone``: the text for its owner.
    """
    if vm.other is not None and vm.other.host == host:
        return lose_second_host(vm)
    if vm.home is None or vm.home.host != host:
        return VmChange(vm=vm)
    if is_of_a_backup(vm.home) and vm.spec.is_movable:
        return VmChange(
            vm=vm
        )  # another host may have it by now: once all have said what they have, this is asked again
    move = vm.move if vm.other is None else None  # a move that has no target yet
    facts = departures(vm.run, vm.disk, vm.grow, move)
    vm = _replace(vm, grow=None, generation=vm.generation + 1)
    if vm.other is not None:
        change = lose_source(vm)
        change = _replace(change, vm=_without_home(change.vm))
    else:
        unmoved = "" if vm.moving is None else f"the move is given up: {HOST_GONE}"
        change = leave_last_host(_without_home(_replace(vm, move=None, moving=None)), disk_gone)
        change = _replace(change, unmoved=unmoved or change.unmoved)
    return _replace(change, facts=(*facts, *change.facts))


def had_disk(vm: Vm, host: str) -> bool:
    """Say whether a VM that belongs on a host had a disk there, by the host's last report."""
    is_at_home = vm.home is not None and vm.home.host == host and vm.power != "absent"
    return is_at_home and not vm.spec.is_movable and vm.reported not in _NEVER_MADE


def apply_missing(vm: Vm, host: str) -> VmChange:
    """Record that a complete list of a host has neither the VM nor an order to create it.

    For this VM, that is proof. A local disk is lost: a new one would hide the loss. A VM without one is created there
    again, by its order.
    """
    order = order_for(vm, host)
    if order is not None and order.power == "absent":
        return apply_absence(vm, host)
    if had_disk(vm, host):
        return lose_host(vm, host, _CAME_WITHOUT)
    if vm.home is not None and vm.home.host == host and vm.reported not in ("", "absent"):
        return apply_report(vm, host, VmReport(vm=vm.id, state="absent"))
    return VmChange(vm=vm)


def _at_home(vm: Vm, report: VmReport) -> VmChange:
    home = vm.home
    assert home is not None
    if report.generation > home.generation:
        return VmChange(vm=vm)  # of an order that we never gave
    if _is_disk_missing(vm, report):
        return lose_host(vm, home.host, f"its disk is no longer on {home.name}")
    if _is_out_of_reach(report):
        vm = _replace(vm, trouble=report.trouble, failed_generation=report.failed_generation, is_unknown=False)
        return VmChange(vm=vm)
    vm = _replace(
        vm,
        reported=report.state,
        reported_generation=report.generation,
        reported_restarts=report.restarts,
        trouble=report.trouble,
        failed_generation=report.failed_generation,
        has_disks=vm.has_disks or (bool(vm.spec.disks) and report.state in _MADE),
        is_unknown=False,
    )
    if vm.moving is not None and vm.moving.phase == "copying" and has_failed(report, home.generation):
        return abort_move(vm, report.trouble.message if report.trouble is not None else "")
    return settle_vm(vm)


def _is_disk_missing(vm: Vm, report: VmReport) -> bool:
    """Say whether a host found, by its newest order, that a disk which it once created is gone.

    A disk on shared storage may only be out of reach: the VM stays blocked there.
    """
    assert vm.home is not None
    is_missing = report.trouble is not None and report.trouble.code == DiskMissingError.code
    is_current = report.state == "absent" and report.failed_generation == vm.home.generation
    return is_missing and is_current and vm.power != "absent" and not vm.spec.is_movable


def _is_out_of_reach(report: VmReport) -> bool:
    """Say whether a host cannot see a VM because its storage is unavailable: the VM is as it was."""
    is_unavailable = report.trouble is not None and report.trouble.code == StorageUnavailableError.code
    return is_unavailable and report.state == "absent"


def _without_home(vm: Vm) -> Vm:
    """Return a VM that is on no host; its claims there have left."""
    return _replace(
        vm,
        run=None,
        disk=None,
        home=None,
        reported="",
        reported_generation=0,
        trouble=None,
        failed_generation=0,
        is_unknown=False,
        is_evicted=False,
    )


_SOMEWHERE = ("running", "paused")


def with_status_notice(before: Vm, change: VmChange, host: str) -> VmChange:
    """Return a change with a note about the VM's new state, if that differs from the old one."""
    word, home = _word(change.vm), change.vm.home
    is_elsewhere = home is not None and home.host != host
    if not word or word == _word(before) or is_elsewhere:
        return change
    return msgspec.structs.replace(change, notes=(*change.notes, word))


def _word(vm: Vm) -> str:
    """Describe a VM's state once it is reached; empty while it is on the way."""
    if vm.is_gone:
        return "deleted"
    state = state_of(vm)
    if state == "resizing":
        state = "paused" if vm.reported == "paused" else "running"
    if vm.home is None:
        return "stopped" if state == "stopped" else ""
    if state in _SOMEWHERE:
        return f"{state} on {vm.home.name}"
    if state == "failed" and vm.trouble is not None:
        return f"failed on {vm.home.name}: {vm.trouble.message}"
    return "stopped" if state == "stopped" else ""
