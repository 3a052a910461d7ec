"""What owners are told when a host reports that their VM is otherwise: once for each change of how it is. Pure."""

from __future__ import annotations

import msgspec

from hostler.control.vms.state import Change, Vm, state_of

__all__ = ["with_word"]

_SOMEWHERE = ("running", "paused")


def with_word(before: Vm, change: Change) -> Change:
    """Return a change that tells how the VM is now, if that is something else than before."""
    word = _word(change.vm)
    if not word or word == _word(before):
        return change
    return msgspec.structs.replace(change, notes=(*change.notes, word))


def _word(vm: Vm) -> str:
    """Say how a VM is, once it has come to something; nothing while it is on its way."""
    if vm.is_gone:
        return "deleted"
    state = state_of(vm)
    if vm.home is None:
        return "stopped" if state == "stopped" else ""
    if state in _SOMEWHERE:
        return f"{state} on {vm.home.name}"
    if state == "failed" and vm.trouble is not None:
        return f"failed on {vm.home.name}: {vm.trouble.message}"
    return "stopped" if state == "stopped" else ""
