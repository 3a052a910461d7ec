"""What hosts' drivers can do with a running VM: migrate it, resize it. Works of the store.

A driver declares its capabilities when its agent registers. Without the capability, a move would be aborted as soon as
it is decided, and a resize would fail while it reserves room. So such a request is rejected before anything is written.
"""

from __future__ import annotations

from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostRow
from hostler.control.vms.errors import NotMovableError, WrongStateError
from hostler.control.vms.spec import VmSpec, check_vm_spec, size_of
from hostler.control.vms.state import Vm, state_of

__all__ = ["ResizeNeedsStopError", "check_migration", "check_resize"]


def check_migration(connection: Connection, vm: Vm, target: str) -> None:
    """Reject a move of a failed VM, or between hosts that cannot migrate; an empty target means any host.

    A stopped VM is not copied, so any two hosts will do.
    """
    if vm.power == "stopped":
        return
    if state_of(vm) == "failed" and vm.reported != "running":
        why = f": {vm.trouble.message}" if vm.trouble is not None else ""
        raise WrongStateError(f"VM {vm.name} failed, so it does not run{why}", hint="restart it first, then move it")
    source = hosts.find(connection, vm.home.host) if vm.home is not None else None
    if source is not None and (driver := _unable(source)):
        message = f"VM {vm.name} is on host {source.name}, whose {driver} cannot move VMs that run"
        raise NotMovableError(message, hint="stop it, migrate it while it is stopped, then start it")
    there = hosts.find_by_name(connection, target) if target else None
    if there is not None and (driver := _unable(there)):
        message = f"VM {vm.name} cannot be moved live to host {there.name}, whose {driver} takes no VMs that run"
        raise NotMovableError(message, hint="name another host, or none")


def _unable(row: HostRow) -> str:
    """Return the driver of a host that cannot migrate running VMs; None if it can, or has never registered."""
    body = read_body(row)
    if row.state == "joined" or body.capabilities.live_migration:
        return ""
    return f"{body.driver} driver" if body.driver else "driver"


class ResizeNeedsStopError(WrongStateError):
    """The VM runs on a host that resizes stopped VMs only."""

    code = "resize_needs_stop"


def check_resize(connection: Connection, vm: Vm, spec: VmSpec) -> None:
    """Reject a resize of a running VM if its host cannot do it; ResizeNeedsStopError."""
    if vm.power not in ("running", "paused") or vm.home is None or not vm.has_room:
        return
    spec = check_vm_spec(spec)
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
