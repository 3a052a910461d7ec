"""What an explanation advises, with the command that does it: nobody should have to look for one, or find none. Pure.

The engine speaks of changes. Some are options of ``hostler vm resize``, some stand in a file for it, some are about
others than the VM, and what can never change of a VM takes another VM.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.control.services.discretion import STRANGER, UNKNOWN_RESERVATION
from hostler.control.vms.state import Vm
from hostler.model import CPU, MEMORY, STORAGE, Change, Explanation, Failure, format_resource

__all__ = ["with_commands"]

_DEFAULT = "default"  # the engine leaves this project out of names
_SIZES = (CPU, MEMORY)
_NAMED = "not_the_named_host"
_SELECTOR = "selector_mismatch"
_MODEL = "wrong_device_model"
_UNLABELLED = "no_topology_label"
_FIELDS = {  # of a spec: which of them a refusal is about
    "untolerated_taint": "tolerations",
    "affinity_mismatch": "host_affinity",
    "affinity_unmet": "affinity",
    "anti_affinity": "anti_affinity",
    "skew_too_large": "spread",
}
_replace = msgspec.structs.replace


def with_commands(found: Explanation, vm: Vm) -> Explanation:
    """Return the explanation of a VM whose cure says how each of its changes is made."""
    cure = found.cure
    if cure is None:
        return found
    failures = next((one.failures for one in found.verdicts if one.host == cure.host), ())
    changes = (_with_command(one, cure.host, failures, vm) for one in cure.changes)
    return _replace(found, cure=_replace(cure, changes=tuple(changes)))


def _with_command(change: Change, host: str, failures: Sequence[Failure], vm: Vm) -> Change:
    command = _command(change, host, failures, vm)
    return _replace(change, text=f"{change.text} ({command})") if command else change


def _command(change: Change, host: str, failures: Sequence[Failure], vm: Vm) -> str:
    """Say how a change is made; nothing where its text says so, or where it is not for this reader."""
    match change.kind:
        case "reduce_request":
            return _smaller(change, failures, vm)
        case "tolerate":
            return _resize(vm, "-f FILE", about="tolerations")
        case "relax_selector":
            return _relaxed(change, host, failures, vm)
        case "evict" if change.subject != STRANGER:
            name = change.subject if "/" in change.subject else f"{_DEFAULT}/{change.subject}"
            return f"'hostler vm migrate {name}' or 'hostler vm stop {name}'"
        case "other":
            return _elsewhere(change, host, failures)
        case _:
            return ""


def _smaller(change: Change, failures: Sequence[Failure], vm: Vm) -> str:
    if change.subject not in _SIZES:
        return _another("disks" if change.subject == STORAGE else "devices")
    for failure in failures:
        if failure.reason.subject == change.subject and failure.free:
            return _resize(vm, f"--{change.subject} {format_resource(change.subject, failure.free)}")
    return ""


def _relaxed(change: Change, host: str, failures: Sequence[Failure], vm: Vm) -> str:
    """Say how a VM no longer asks for something of its host, or of the VMs around it."""
    codes = {one.reason.code for one in failures if one.reason.subject == change.subject}
    if _MODEL in codes:
        return _another("devices")
    if _SELECTOR in codes:
        return _resize(vm, f"--selector {change.subject.partition('=')[0]}-")
    if change.subject == host and any(one.reason.code == _NAMED for one in failures):
        return f'{_resize(vm, f"--host {host}")}, or --host ""'
    # Of a VM that moves, what is left of its own terms is told in other words than the engine's.
    known = [one for one in codes if one in _FIELDS] or [
        one.reason.code for one in failures if one.reason.code in _FIELDS
    ]
    return _resize(vm, "-f FILE", about=_FIELDS[known[0]]) if known else ""


def _elsewhere(change: Change, host: str, failures: Sequence[Failure]) -> str:
    """Say how something is changed that is no part of the VM."""
    for failure in failures:
        key = failure.reason.subject
        if failure.reason.code == _UNLABELLED and change.text == f"label {host} with {key}":
            return f"'hostler host label {host} {key}=VALUE'"
        if f"reservation:{change.subject}" in failure.by and change.subject != UNKNOWN_RESERVATION:
            name = change.subject
            return f"'hostler reservation delete {name}' or 'hostler reservation edit {name} --amounts …'"
    return ""


def _resize(vm: Vm, option: str, *, about: str = "") -> str:
    """Write a resize; one that moves stays as it is until that is over."""
    name = f"{vm.project}/{vm.name}"
    first = f"'hostler vm migrate {name} --cancel', then " if vm.moving is not None else ""
    where = f", with {about} in it as they should be" if about else ""
    return f"{first}'hostler vm resize {name} {option}'{where}"


def _another(what: str) -> str:
    return f"'hostler vm create' makes another VM that does; its {what} cannot change"
