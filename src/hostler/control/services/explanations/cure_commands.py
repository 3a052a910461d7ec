"""The command for each change that an explanation proposes. Pure.

The engine proposes changes. Some are options of ``hostler vm resize``, some are fields of its file, some concern other
objects. What cannot change in a VM needs a new VM.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.control.services.visible_names import STRANGER, UNKNOWN_RESERVATION
from hostler.control.vms.state import Vm
from hostler.model import CPU, MEMORY, STORAGE, CureChange, Explanation, Failure, format_resource

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
    """Return the explanation of a VM with a command for each change of its cure."""
    cure = found.cure
    if cure is None:
        return found
    failures = next((one.failures for one in found.verdicts if one.host == cure.host), ())
    changes = (_with_command(one, cure.host, failures, vm) for one in cure.changes)
    return _replace(found, cure=_replace(cure, changes=tuple(changes)))


def _with_command(change: CureChange, host: str, failures: Sequence[Failure], vm: Vm) -> CureChange:
    command = _command(change, host, failures, vm)
    return _replace(change, text=f"{change.text} ({command})") if command else change


def _command(change: CureChange, host: str, failures: Sequence[Failure], vm: Vm) -> str:
    """Return the text with the command of a change; empty if the text has it, or if the caller may not run it."""
    match change.kind:
        case "reduce_request":
            return _shrink_command(change, failures, vm)
        case "tolerate":
            return _resize(vm, "-f FILE", about="tolerations")
        case "relax_selector":
            return _relax_command(change, host, failures, vm)
        case "evict" if change.subject != STRANGER:
            name = change.subject if "/" in change.subject else f"{_DEFAULT}/{change.subject}"
            return f"'hostler vm migrate {name}' or 'hostler vm stop {name}'"
        case "other":
            return _other_command(change, host, failures)
        case _:
            return ""


def _shrink_command(change: CureChange, failures: Sequence[Failure], vm: Vm) -> str:
    if change.subject not in _SIZES:
        return _new_vm_text("disks" if change.subject == STORAGE else "devices")
    for failure in failures:
        if failure.reason.subject == change.subject and failure.free:
            return _resize(vm, f"--{change.subject} {format_resource(change.subject, failure.free)}")
    return ""


def _relax_command(change: CureChange, host: str, failures: Sequence[Failure], vm: Vm) -> str:
    """Describe how a VM drops a constraint about its host, or about the VMs around it."""
    codes = {one.reason.code for one in failures if one.reason.subject == change.subject}
    if _MODEL in codes:
        return _new_vm_text("devices")
    if _SELECTOR in codes:
        return _resize(vm, f"--selector {change.subject.partition('=')[0]}-")
    if change.subject == host and any(one.reason.code == _NAMED for one in failures):
        return f'{_resize(vm, f"--host {host}")}, or --host ""'
    # The terms of a moving VM are described in other words than the engine's.
    known = [one for one in codes if one in _FIELDS] or [
        one.reason.code for one in failures if one.reason.code in _FIELDS
    ]
    return _resize(vm, "-f FILE", about=_FIELDS[known[0]]) if known else ""


def _other_command(change: CureChange, host: str, failures: Sequence[Failure]) -> str:
    """Describe how to change something that does not belong to the VM."""
    for failure in failures:
        key = failure.reason.subject
        if failure.reason.code == _UNLABELLED and change.text == f"label {host} with {key}":
            return f"'hostler host label {host} {key}=VALUE'"
        if f"reservation:{change.subject}" in failure.by and change.subject != UNKNOWN_RESERVATION:
            name = change.subject
            return f"'hostler reservation delete {name}' or 'hostler reservation edit {name} --amounts …'"
    return ""


def _resize(vm: Vm, option: str, *, about: str = "") -> str:
    """Return a resize command. A VM that is moving can be resized only after the move."""
    name = f"{vm.project}/{vm.name}"
    first = f"'hostler vm migrate {name} --cancel', then " if vm.moving is not None else ""
    where = f", with {about} in it as they should be" if about else ""
    return f"{first}'hostler vm resize {name} {option}'{where}"


def _new_vm_text(what: str) -> str:
    return f"'hostler vm create' makes another VM that does; its {what} cannot change"
