"""Whether the hosts of a move can do it: a work of the store.

A driver says at registration whether it moves VMs that run. Where one of the two cannot, the move would be given up as
soon as it is decided, so the wish is refused before anything is written.
"""

from __future__ import annotations

from hostler.control.fleet.hosts import read_body
from hostler.control.store import Connection, hosts
from hostler.control.store.hosts import HostRow
from hostler.control.vms.errors import NotMovableError, WrongStateError
from hostler.control.vms.state import Vm, state_of

__all__ = ["check_migration"]


def check_migration(connection: Connection, vm: Vm, target: str) -> None:
    """Refuse to move a VM that failed, or between hosts that cannot do it; an empty target is whichever can.

    One that is stopped is carried by nobody: any two hosts will do.
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
    """Return the driver of a host that cannot move VMs that run; nothing where it can, or has never registered."""
    body = read_body(row)
    if row.state == "joined" or body.capabilities.live_migration:
        return ""
    return f"{body.driver} driver" if body.driver else "driver"
