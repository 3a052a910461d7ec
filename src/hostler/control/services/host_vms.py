"""The VMs that a host has or is to have, as far as the caller may see them."""

from __future__ import annotations

from hostler.control.api.shapes import Vm
from hostler.control.books import ledger
from hostler.control.services import hosts
from hostler.control.services.callers import Caller
from hostler.control.services.showing import show_vm
from hostler.control.store import Connection

__all__ = ["list_on"]


def list_on(connection: Connection, identity: str, caller: Caller) -> list[Vm]:
    """Return the VMs on a host and those that land there, by project and name; NotFoundError."""
    row = hosts.find(connection, identity, caller)
    seen = [one for one in ledger.of_host(connection, row.id) if _may_see(caller, one.vm.project)]
    return sorted((show_vm(one) for one in seen), key=lambda vm: (vm.project, vm.name))


def _may_see(caller: Caller, project: str) -> bool:
    return caller.principal.why_not("vm.read", project) is None
