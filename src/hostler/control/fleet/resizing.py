"""Whether a VM can get another size where it is: a work of the store.

A driver says at registration what it can do. One that resizes stopped VMs only would take the order and fail, with room
kept for nothing meanwhile, so the wish is refused before anything is written.
"""

from __future__ import annotations

from hostler.control.fleet.hosts import read_body
from hostler.control.store import Connection, hosts
from hostler.control.vms.errors import WrongStateError
from hostler.control.vms.spec import VmSpec, checked, size_of
from hostler.control.vms.state import Vm

__all__ = ["ResizeNeedsStopError", "check_resize"]


class ResizeNeedsStopError(WrongStateError):
    """The VM runs on a host that resizes stopped VMs only."""

    code = "resize_needs_stop"


def check_resize(connection: Connection, vm: Vm, spec: VmSpec) -> None:
    """Refuse another size for a VM that runs where that is not possible; ResizeNeedsStopError."""
    if vm.power not in ("running", "paused") or vm.home is None or not vm.has_room:
        return
    spec = checked(spec)
    if size_of(spec) == size_of(vm.spec) and spec.disks == vm.spec.disks:
        return
    row = hosts.find(connection, vm.home.host)
    body = read_body(row) if row is not None else None
    if body is None or body.capabilities.resize_running:
        return
    driver = body.driver or "driver"
    raise ResizeNeedsStopError(
        f"VM {vm.name} runs on {vm.home.name}, whose {driver} resizes stopped VMs only",
        hint="stop it first, resize it, then start it",
    )
