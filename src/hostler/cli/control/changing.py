"""Changes of VMs that are named on the command line, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from hostler.cli.control.connecting import There
from hostler.cli.control.in_turn import do_in_turn
from hostler.cli.control.waiting import end_with, follow
from hostler.cli.terminal import print_data, printable, say
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.control.api.shapes import Vm, VmChanged
    from hostler.control.client import Client

__all__ = ["change_each", "change_vms", "find_all", "show_changes"]

_AT_ONCE = {"protect": "protected from deletion", "unprotect": "no longer protected from deletion"}


def change_vms(
    there: There, words: Sequence[str], change: Callable[[Client, Vm], VmChanged], wait_s: int | None, output: str
) -> None:
    """Change VMs by their names, and say how they are. All are looked up before the first is changed."""
    with there.open() as client:
        vms = find_all(client, words)
        changes = follow(client, change_each(vms, lambda vm: change(client, vm), output), wait_s)
    show_changes(changes, output, wait_s, before=vms)


def find_all(client: Client, words: Sequence[str]) -> list[Vm]:
    """Look VMs up by their names; one that is named twice is there once. UnknownNameError.

    Of several VMs some would do, so whoever mistyped one learns that nothing happened to the others.
    """
    try:
        found = [client.vms.find(word, client.reach.project) for word in words]
    except HostlerError as error:
        if len(words) > 1:
            error.hint = f"{error.hint}; nothing was changed"
        raise
    return list({vm.id: vm for vm in found}.values())


def change_each(vms: Sequence[Vm], change: Callable[[Vm], VmChanged], output: str) -> list[VmChanged]:
    """Change VMs one after the other; where one is refused, show those that were changed before it."""
    return do_in_turn(vms, change, lambda done: show_changes(done, output, None, before=vms))


def show_changes(changes: Sequence[VmChanged], output: str, wait_s: int | None, before: Sequence[Vm] = ()) -> None:
    """Say what came of changes, and end as they did; where a VM is as it was ``before``, that nothing was changed."""
    known = {(vm.id, vm.version) for vm in before}
    end_with(changes, wait_s, lambda: _show(changes, output, known, is_waited_for=wait_s is not None))


def _show(
    changes: Sequence[VmChanged], output: str, known: Collection[tuple[str, int]], *, is_waited_for: bool
) -> None:
    """Say what was asked for, and how each VM is."""
    if output != "table":
        found = [msgspec.to_builtins(one) for one in changes]
        print_data(found[0] if len(found) == 1 else {"items": found}, output)
        return
    for one in changes:
        vm, deed = one.vm, one.operation.kind.rpartition(".")[2]
        where = f" on {vm.host}" if vm.host else ""
        gone = deed == "delete" and one.operation.state == "done"
        how = "" if gone else f"; it is {vm.state}{where}{f' ({vm.why})' if vm.why else ''}"
        is_kept = one.operation.state == "done" and (vm.id, vm.version) in known
        what = "nothing was to be changed" if is_kept else _outcome(one, is_waited_for=is_waited_for)
        say(printable(f"{vm.project}/{vm.name}: {what}{how}"))


def _outcome(change: VmChanged, *, is_waited_for: bool) -> str:
    """Say what was done, or how far it is."""
    deed, state = change.operation.kind.rpartition(".")[2], change.operation.state
    if state == "done":
        return _AT_ONCE.get(deed, f"{deed} done")
    return f"{deed} {state if is_waited_for else 'accepted'}"
