"""What tables say of VMs, and how VMs are named on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.cli.control.connecting import completing
from hostler.cli.control.showing import Field, age, amount_text, labels_text

if TYPE_CHECKING:
    from hostler.control.api.shapes import Vm
    from hostler.control.client import Client

__all__ = ["DETAILS", "FIELDS", "complete_vm", "disks_text", "why_text"]


def disks_text(vm: Vm) -> str:
    """Write the disks of a VM in one line."""
    disks = ((amount_text("storage", disk.size), disk.storage) for disk in vm.spec.disks)
    return ", ".join(f"{size}{f' on {storage}' if storage else ''}" for size, storage in disks)


def _cpu(vm: Vm) -> str:
    return _size("cpu", vm.spec.cpu, vm.booked.cpu if vm.booked is not None else None)


def _memory(vm: Vm) -> str:
    return _size("memory", vm.spec.memory, vm.booked.memory if vm.booked is not None else None)


def _size(resource: str, wanted: object, has: str | None) -> str:
    """Write an amount; where a resize is under way, also what the VM has until then."""
    text = amount_text(resource, wanted)
    return f"{text} wanted, {amount_text(resource, has)} now" if has is not None and has != str(wanted) else text


def _where(vm: Vm) -> str:
    return f"{vm.host or '-'} → {vm.moving_to}" if vm.moving_to else vm.host or "-"


def why_text(vm: Vm) -> str:
    """Say what is in the way of a VM: why it waits, else its host's trouble with it; empty where nothing is."""
    return vm.why or (f"{vm.trouble.kind}: {vm.trouble.message}" if vm.trouble is not None else "")


def _conditions(vm: Vm) -> str:
    lines = [f"{one.type}: {'yes' if one.status else 'no'}{f' ({text})' if (text := one.message or one.reason) else ''}"
             for one in vm.conditions]  # fmt: skip
    return "\n".join(lines)


FIELDS: list[Field[Vm]] = [
    Field("PROJECT", lambda vm: vm.project),
    Field("NAME", lambda vm: vm.name),
    Field("STATE", lambda vm: vm.state),
    Field("HOST", _where),
    Field("CPU", lambda vm: vm.spec.cpu, "right"),
    Field("MEMORY", lambda vm: amount_text("memory", vm.spec.memory), "right"),
    Field("DISKS", disks_text),
    Field("AGE", lambda vm: age(vm.created_at), "right"),
    Field("POWER", lambda vm: vm.power, is_wide=True),
    Field("SETTLED", lambda vm: vm.observed_generation >= vm.generation, is_wide=True),
    Field("PRIORITY", lambda vm: vm.spec.priority, "right", is_wide=True),
    Field("GANG", lambda vm: vm.spec.gang, is_wide=True),
    Field("LABELS", lambda vm: labels_text(vm.spec.labels), is_wide=True),
    Field("ID", lambda vm: vm.id, is_wide=True),
    Field("WHY", why_text, is_wide=True),
]

DETAILS: list[Field[Vm]] = [
    Field("Name", lambda vm: f"{vm.project}/{vm.name}"),
    Field("Id", lambda vm: vm.id),
    Field("State", lambda vm: vm.state),
    Field("Wanted", lambda vm: vm.power),
    Field("Why", why_text),
    Field("Tried", lambda vm: f"{vm.tried_at} ({age(vm.tried_at)})" if vm.tried_at else ""),
    Field("Host", _where),
    Field("CPU", _cpu),
    Field("Memory", _memory),
    Field("Disks", disks_text),
    Field("Network", lambda vm: vm.spec.network.bridge or vm.spec.network.kind),
    Field("Labels", lambda vm: labels_text(vm.spec.labels) if vm.spec.labels else ""),
    Field("Strategy", lambda vm: vm.spec.strategy),
    Field("Priority", lambda vm: vm.spec.priority or ""),
    Field("Gang", lambda vm: vm.spec.gang),
    Field("When lost", lambda vm: vm.spec.when_lost),
    Field("Protected", lambda vm: "yes" if vm.protected else ""),
    Field("Restarts", lambda vm: vm.restarts or ""),
    Field("Created", lambda vm: f"{vm.created_at} ({age(vm.created_at)})"),
    Field("Conditions", _conditions),
]


def _names(client: Client, incomplete: str) -> list[str]:
    project, slash, _ = incomplete.rpartition("/")
    vms = client.vms.list(project=project or client.reach.project, limit=200)
    return [f"{project}{slash}{vm.name}" for vm in vms]


complete_vm = completing(_names)
