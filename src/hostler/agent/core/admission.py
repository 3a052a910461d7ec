"""The allocations of a host: rejects what does not fit, whatever the control plane believed when it sent an order.

The control plane reserves first, so a rejection here means that one of the two is wrong, and no VM's memory may pay for
that. Held is what VMs have already, whether it fits or not. Claimed is what a running action will need. A claim stands
from the moment it is granted, so free room is never given twice. Used by ``plan``; pure.
"""

from __future__ import annotations

from typing import NamedTuple

from hostler.agent.messages import HostSize, Order
from hostler.model import CPU, MEMORY, STORAGE, format_resource

__all__ = [
    "MOST", "NOTHING", "Amounts", "HostAllocations", "size_of", "what_a_running_vm_takes",
    "what_a_stopped_vm_takes",
]  # fmt: skip

_RESOURCES = (CPU, MEMORY, STORAGE)  # what people call the fields of ``Amounts``
MOST = 2**63 - 1  # sums stop here: a wrong number must not turn into a small one


class Amounts(NamedTuple):
    """CPU, memory and disk of a VM or a host."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """Add, but never beyond ``MOST``."""
        return Amounts(*(min(mine + theirs, MOST) for mine, theirs in zip(self, other, strict=True)))

    def at_least(self, other: Amounts) -> Amounts:
        """Return the larger of each."""
        return Amounts(*(max(mine, theirs) for mine, theirs in zip(self, other, strict=True)))


NOTHING = Amounts()


class HostAllocations:
    """What a host may give, and which VM has it. With an unknown inventory it is full."""

    def __init__(self, total: Amounts, *, is_known: bool = True) -> None:
        self._total = total
        self._is_known = is_known
        self._held: dict[str, Amounts] = {}
        self._sums = (0, 0, 0)  # exact: a sum that stopped at MOST could not be taken back

    def hold(self, vm: str, amounts: Amounts) -> None:
        """Set what a VM has, whether it fits or not, instead of its earlier amount."""
        before = self._held.get(vm, NOTHING)
        self._held[vm] = amounts
        cpu, memory, disk = (total + now - old for total, now, old in zip(self._sums, amounts, before, strict=True))
        self._sums = (cpu, memory, disk)

    def claim(self, vm: str, wanted: Amounts) -> str:
        """Reserve what a VM will need and return None, or return why it does not fit and reserve nothing.

        Only growth is checked, for each resource. What shrinks stays reserved until ``hold`` says that it is done.
        """
        has = self._held.get(vm, NOTHING)
        why = self._why_not(has, wanted)
        if not why:
            self.hold(vm, has.at_least(wanted))
        return why

    @property
    def used(self) -> Amounts:
        """Return the sum of all allocations; it may exceed the total."""
        return Amounts(*(min(total, MOST) for total in self._sums))

    @property
    def free(self) -> Amounts:
        """Return what may still be claimed."""
        if not self._is_known:
            return NOTHING
        return Amounts(*(max(total - used, 0) for total, used in zip(self._total, self.used, strict=True)))

    def _why_not(self, has: Amounts, wanted: Amounts) -> str:
        growth = [max(want - had, 0) for want, had in zip(wanted, has, strict=True)]
        if any(growth) and not self._is_known:
            return "what this host holds is not known, so nothing is free"
        short = [
            f"{name}: {format_resource(name, more)} more wanted, {format_resource(name, free)} free"
            for name, more, free in zip(_RESOURCES, growth, self.free, strict=True)
            if more > free
        ]
        return "; ".join(short)


def size_of(host: HostSize) -> Amounts:
    """Return what a host has, as amounts."""
    return Amounts(host.cpu_millis, host.memory_bytes, host.disk_bytes)


def what_a_stopped_vm_takes(order: Order) -> Amounts:
    """Return what a stopped VM needs: its local disks. Shared storage is not this host's to give."""
    return Amounts(0, 0, min(sum(disk.size_bytes for disk in order.disks if not disk.storage), MOST))


def what_a_running_vm_takes(order: Order) -> Amounts:
    """Return what a VM needs when it runs or is paused."""
    return Amounts(order.cpu_millis, order.memory_bytes, what_a_stopped_vm_takes(order).disk_bytes)
