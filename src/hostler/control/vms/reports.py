"""What agents report of a VM, carried into its books. Pure; any replica does it, in the transaction of the report.

Room returns to the engine here and only here: when the host says that the VM has stopped, shrunk, left or gone.
Reports of a generation that was never ordered from that host change nothing.
"""

from __future__ import annotations

import re

import msgspec

from hostler.agent.drivers.driver import DiskMissingError, StorageUnavailableError
from hostler.agent.messages import VmReport
from hostler.control.vms.guests import departures, with_run
from hostler.control.vms.moving import given_up, has_failed, other_gone, other_lost, other_reported, source_lost
from hostler.control.vms.orders import is_of_a_backup, order_for, power_at_home
from hostler.control.vms.settling import DISK_GONE, HOST_GONE, ended, homeless, settled
from hostler.control.vms.state import Change, Vm
from hostler.control.vms.words import with_word

__all__ = ["gone", "had_disk", "heard", "is_old_news", "lost", "missing", "reported", "silent"]

_replace = msgspec.structs.replace
_NEVER_MADE = ("", "absent", "creating")
_MADE = ("stopped", "starting", "running", "paused", "stopping")
_CAME_WITHOUT = "its host came back without it: its disk is gone"


def reported(vm: Vm, host: str, report: VmReport) -> Change:
    """Take in how a host found a VM; absent by an order of its age is gone."""
    return with_word(vm, _reported(vm, host, _by_name(vm, report)))


def _by_name(vm: Vm, report: VmReport) -> VmReport:
    """Return a report whose trouble calls the VM by its name: hosts know it by its id, and its owner does not.

    Paths and names on the host that only contain the id stay, and so do hints: they may hold commands.
    """
    trouble = report.trouble
    if trouble is None or vm.id not in trouble.message:
        return report
    message = re.sub(rf"(?<![\w/.-]){re.escape(vm.id)}(?![\w/-])", lambda _: vm.name, trouble.message)
    return _replace(report, trouble=_replace(trouble, message=message))


def gone(vm: Vm, host: str, generation: int = 0) -> Change:
    """Take in that a host has nothing of the VM any more, by an order of that generation where it tells (not 0)."""
    return with_word(vm, _gone(vm, host, generation))


def _reported(vm: Vm, host: str, report: VmReport) -> Change:
    if report.state == "absent" and report.generation:
        order = order_for(vm, host)
        if order is not None and order.power == "absent" and order.generation == report.generation:
            return _gone(vm, host)
    if vm.home is not None and vm.home.host == host:
        return _at_home(vm, report)
    if vm.other is not None and vm.other.host == host:
        return other_reported(vm, report)
    return Change(vm=vm)


def _gone(vm: Vm, host: str, generation: int = 0) -> Change:
    if is_old_news(vm, host, generation):
        return Change(vm=vm)
    if vm.other is not None and vm.other.host == host:
        return other_gone(vm)
    if vm.home is None or vm.home.host != host or power_at_home(vm) != "absent":
        return Change(vm=vm)
    facts = departures(vm.run, vm.disk)
    vm = _without_home(vm)
    if vm.power == "absent":
        return Change(vm=ended(vm) if vm.other is None else vm, facts=facts)
    if vm.power == "stopped":
        return Change(vm=_replace(vm, observed_generation=vm.generation), facts=facts)
    vm, fact = with_run(vm)
    return Change(vm=vm, facts=(*facts, fact))


def is_old_news(vm: Vm, host: str, generation: int) -> bool:
    """Say whether a host that has nothing of a VM by an order of that age has another one now: it may be back."""
    order = order_for(vm, host)
    return bool(generation) and order is not None and generation != order.generation


def silent(vm: Vm) -> Change:
    """Note that nobody hears from its host: how it is is not known, and nothing else follows from that."""
    return Change(vm=vm if vm.is_unknown or vm.home is None else _replace(vm, is_unknown=True))


def heard(vm: Vm) -> Change:
    """Note that its host is heard again."""
    return Change(vm=_replace(vm, is_unknown=False) if vm.is_unknown else vm)


def lost(vm: Vm, host: str, disk_gone: str = DISK_GONE) -> Change:
    """Take in proof that a host runs nothing any more. Without such proof this must not be called.

    A VM that may start elsewhere does, as soon as no other host has anything of it; one whose disk lay there is lost
    with it, until it is deleted. ``disk_gone``: what its owner is told then.
    """
    if vm.other is not None and vm.other.host == host:
        return other_lost(vm)
    if vm.home is None or vm.home.host != host:
        return Change(vm=vm)
    if is_of_a_backup(vm.home) and vm.spec.is_movable:
        return Change(vm=vm)  # another host may have it by now: once all have said what they have, this is asked again
    move = vm.move if vm.other is None else None  # a move that has no target yet
    facts = departures(vm.run, vm.disk, vm.grow, move)
    vm = _replace(vm, grow=None, generation=vm.generation + 1)
    if vm.other is not None:
        change = source_lost(vm)
        change = _replace(change, vm=_without_home(change.vm))
    else:
        unmoved = "" if vm.moving is None else f"the move is given up: {HOST_GONE}"
        change = homeless(_without_home(_replace(vm, move=None, moving=None)), disk_gone)
        change = _replace(change, unmoved=unmoved or change.unmoved)
    return _replace(change, facts=(*facts, *change.facts))


def had_disk(vm: Vm, host: str) -> bool:
    """Say whether a VM that is to be on a host had a disk there, by what the host reported last."""
    is_at_home = vm.home is not None and vm.home.host == host and vm.power != "absent"
    return is_at_home and not vm.spec.is_movable and vm.reported not in _NEVER_MADE


def missing(vm: Vm, host: str) -> Change:
    """Take in that a host which told all that it has does not have the VM, nor an order to make it.

    That is proof for this VM. A disk that lay there is lost: made anew, it would look as if nothing had happened. A VM
    without one is made there again, by its order.
    """
    order = order_for(vm, host)
    if order is not None and order.power == "absent":
        return gone(vm, host)
    if had_disk(vm, host):
        return lost(vm, host, _CAME_WITHOUT)
    if vm.home is not None and vm.home.host == host and vm.reported not in ("", "absent"):
        return reported(vm, host, VmReport(vm=vm.id, state="absent"))
    return Change(vm=vm)


def _at_home(vm: Vm, report: VmReport) -> Change:
    home = vm.home
    assert home is not None
    if report.generation > home.generation:
        return Change(vm=vm)  # of an order that we never gave
    if _is_disk_missing(vm, report):
        return lost(vm, home.host, f"its disk is no longer on {home.name}")
    if _is_out_of_reach(report):
        vm = _replace(vm, trouble=report.trouble, failed_generation=report.failed_generation, is_unknown=False)
        return Change(vm=vm)
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
        return given_up(vm, report.trouble.message if report.trouble is not None else "")
    return settled(vm)


def _is_disk_missing(vm: Vm, report: VmReport) -> bool:
    """Say whether a host has found, by its newest order, that a disk which it made once is gone.

    One on shared storage may only be out of its reach: the VM stays blocked there.
    """
    assert vm.home is not None
    is_missing = report.trouble is not None and report.trouble.code == DiskMissingError.code
    is_current = report.state == "absent" and report.failed_generation == vm.home.generation
    return is_missing and is_current and vm.power != "absent" and not vm.spec.is_movable


def _is_out_of_reach(report: VmReport) -> bool:
    """Say whether a host cannot see a VM because its storage is unavailable: it is as it was."""
    is_unavailable = report.trouble is not None and report.trouble.code == StorageUnavailableError.code
    return is_unavailable and report.state == "absent"


def _without_home(vm: Vm) -> Vm:
    """Return a VM that is on no host; what it claimed there has left."""
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
