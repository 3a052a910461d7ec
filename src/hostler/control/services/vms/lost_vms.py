"""Lost VMs, whose disk is gone, and the missing hosts that may still have it.

A host that is silent, forced offline or not registered since a restore may have the VM. If the VM started elsewhere, it
could run twice, or its data would be lost. So it is not created again while hosts are missing; only an admin may force
it. Used by ``vms`` and by views of VMs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from hostler.agent.messages import shorten
from hostler.control.fleet.hosts.host_body import is_unregistered
from hostler.control.fleet.hosts.silence import SILENT
from hostler.control.services.callers import Caller, write_audit_note
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from hostler.control.vms import desired_state
from hostler.control.vms.errors import HostsMissingError
from hostler.control.vms.state import Vm, VmChange
from hostler.control.vms.status_texts import force_command, waits_for_hosts

__all__ = ["MissingHosts", "find_missing", "missing_hosts", "start_vm"]

MissingHosts = Callable[[], Sequence[str]]  # names of the hosts that may still have a lost VM


def find_missing(connection: Connection) -> MissingHosts:
    """Return a function for the names of missing hosts. It reads them once at most: few VMs are lost."""
    return cache(lambda: missing_hosts(connection))


def missing_hosts(connection: Connection) -> tuple[str, ...]:
    """Return the names of hosts that are silent and not proved dead."""
    rows = hosts.all_alive(connection)
    return tuple(sorted(row.name for row in rows if row.state in SILENT or is_unregistered(row)))


def start_vm(connection: Connection, vm: Vm, caller: Caller, *, is_forced: bool) -> VmChange:
    """Start a VM. A lost VM starts only if no host is missing, or if an admin forces it, which is an event.

    HostsMissingError, ForbiddenError.
    """
    if is_forced:
        caller.principal.check("vm.force")
    missing = missing_hosts(connection) if vm.is_lost else ()
    if missing and not is_forced:
        hint = f"bring them back, confirm that they are dead, or have an admin force it: {force_command(vm)}"
        raise HostsMissingError(f"VM {vm.name} is lost and {waits_for_hosts(missing)}", hint=hint)
    if missing:
        text = f"forced lost {vm.name} to start while hosts were missing: {', '.join(missing)}"
        write_audit_note(
            connection, caller, "vm.force", subject=vm.id, name=vm.name, project=vm.project, text=shorten(text)
        )
    return desired_state.start(vm)
