"""A VM as the control plane knows it: what is wanted, what is booked, what was reported. Frozen; changes make new ones.

Guests stand for it in the engine: ``run`` holds cpu and memory (at first the disks too), ``disk`` holds the disks of a
stopped VM, ``grow`` asks for what a resize adds, ``move`` for room at the other end of a migration. Their uids are
never used again, so each gets the VM's next number.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.agent.messages import Trouble
from hostler.control.vms.spec import Size, VmSpec, size_of
from hostler.model import Event

__all__ = [
    "Booking", "Claim", "Leaving", "Move", "Power", "State", "Vm", "VmChange", "is_settled", "merge_changes",
    "state_of",
]  # fmt: skip

Power = Literal["running", "stopped", "paused", "absent"]
State = Literal[
    "pending", "creating", "starting", "running", "paused", "stopping", "stopped", "migrating", "resizing",
    "deleting", "failed", "unknown", "lost",
]  # fmt: skip


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A guest in the engine that stands for a part of a VM; ``version`` is that of the last fact about it."""

    uid: str
    size: Size = Size()
    is_bound: bool = False
    devices: tuple[int, ...] = ()
    version: int = 1
    gang: str = ""  # a guest cannot change its gang, so the claim remembers it


class Booking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A host that has, or is to have, the VM. ``generation`` is that of the order it was given."""

    host: str  # the id
    name: str
    generation: int = 1
    seq: int = 0
    since: int = 0  # the generation in which the host was chosen: what it made of the VM before that does not count


class Move(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A migration under way. ``cleaning`` and ``aborting`` wait for one side to let go of what it has.

    A VM that moves and has no home has lost its source: ``copying`` then waits for the target's word.
    """

    phase: Literal["placing", "preparing", "copying", "cleaning", "aborting"] = "placing"
    address: str = ""
    secret: str = ""
    why: str = ""  # it was given up
    makes_room: str = ""  # for which VM it moves, in the words of its owner; empty: the move itself was asked for


class Leaving(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """It is to leave its host, which is drained. ``why`` no other host takes it; empty until that was decided.

    It holds for one generation of the VM: who is wanted otherwise, or has a place, may leave after all.
    """

    generation: int
    why: str = ""


class Vm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A VM. ``home`` is its host; ``other`` the second one while it moves: the target, later the source."""

    id: str
    project: str
    name: str
    spec: VmSpec
    power: Power = "running"
    generation: int = 1
    observed_generation: int = 0
    restarts: int = 0
    resized: int = 0  # the generation in which another size was ordered
    is_protected: bool = False
    fails_unplaced: bool = False  # on_unplaceable=fail: it is dropped if there is no room, and none is being made
    home: Booking | None = None
    other: Booking | None = None
    run: Claim | None = None
    disk: Claim | None = None
    grow: Claim | None = None
    move: Claim | None = None
    moving: Move | None = None
    leaving: Leaving | None = None
    number: int = 0  # how many claims were made so far
    is_evicted: bool = False  # on its way out for another VM
    made_way: str = ""  # why it was stopped for another VM, until it has room again
    moved_for: str = ""  # for which VM it was moved to its host, until it gets another host or stops
    is_unknown: bool = False  # its host is silent
    has_disks: bool = False  # a host made its disks: none of them is made again, unless it is started after a loss
    is_lost: bool = False  # its disk is gone: with its host, or its host came back without it
    reported: str = ""  # the state that its host told last
    reported_generation: int = 0  # the newest order that its host has fulfilled
    reported_restarts: int = 0
    trouble: Trouble | None = None
    failed_generation: int = 0
    why: str = ""  # why it waits for a place
    runs_since_ns: int = 0  # since when it runs, by the log; 0: it does not, or no host has reported it yet
    waits_since_ns: int = 0  # since when it waits for a place again; 0: it does not, or has since it was created
    is_gone: bool = False  # no host has anything of it any more

    @property
    def wanted(self) -> Size:
        """Return the resources of the VM when it runs as requested."""
        return size_of(self.spec)

    @property
    def unbooked(self) -> Size:
        """Return the resources to request so that it runs as requested: disks of a stopped VM are booked already."""
        return self.wanted if self.disk is None else msgspec.structs.replace(self.wanted, disk_bytes=0)

    @property
    def has_room(self) -> bool:
        """Say whether its host keeps cpu and memory for it."""
        return self.run is not None and self.run.is_bound

    @property
    def is_undecided(self) -> bool:
        """Say whether it must be placed at once, and that is not decided yet."""
        return self.fails_unplaced and not self.is_gone and not self.why

    @property
    def booked(self) -> Size:
        """Return what is kept for it at home."""
        cpu = self.run.size if self.run is not None and self.run.is_bound else Size()
        disk = self.disk.size if self.disk is not None else Size()
        return Size(
            cpu_millis=cpu.cpu_millis,
            memory_bytes=cpu.memory_bytes,
            disk_bytes=cpu.disk_bytes + disk.disk_bytes,
        )


class VmChange(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a transition: the new VM, facts for the engine, and hosts with new orders."""

    vm: Vm
    facts: tuple[Event, ...] = ()
    hosts: tuple[str, ...] = ()  # ids
    notes: tuple[str, ...] = ()  # for people
    failed: str = ""  # why nothing of what is still wanted will ever come true
    unmoved: str = ""  # why a move will never come true; what else is wanted may


def merge_changes(first: VmChange, second: VmChange) -> VmChange:
    """Return two changes of one VM as one; the second was made from the VM that the first left."""
    return VmChange(
        vm=second.vm,
        facts=(*first.facts, *second.facts),
        hosts=tuple(dict.fromkeys((*first.hosts, *second.hosts))),
        notes=(*first.notes, *second.notes),
        failed=first.failed or second.failed,
        unmoved=first.unmoved or second.unmoved,
    )


def is_settled(vm: Vm, generation: int) -> bool:
    """Say whether what was wanted with a generation has come true, whatever was wanted since."""
    return vm.is_gone or vm.observed_generation >= generation


def state_of(vm: Vm) -> State:
    """Name how a VM is, in one word."""
    if vm.is_lost:
        return "deleting" if vm.power == "absent" else "lost"
    if vm.is_unknown and vm.home is not None:
        return "unknown"
    if vm.power == "absent":
        return "deleting"
    if vm.moving is not None:
        return "migrating"
    if vm.home is None:
        return "stopped" if vm.power == "stopped" else "pending"
    if vm.trouble is not None and vm.trouble.kind == "permanent" and vm.failed_generation == vm.home.generation:
        return "failed"
    if vm.power == "stopped" or vm.is_evicted:
        has_ended = vm.reported in ("stopped", "absent", "left") or (vm.run is None and not vm.reported)
        return "stopped" if has_ended and not vm.is_evicted else "stopping"
    if not vm.has_room:
        return "pending"
    return _lively(vm)


def _lively(vm: Vm) -> State:
    if vm.reported in ("", "absent", "creating"):
        return "creating"
    if vm.reported == vm.power and vm.reported_restarts < vm.restarts:
        return "starting"
    if vm.reported == vm.power and (vm.grow is not None or vm.reported_generation < vm.resized):
        return "resizing"
    if vm.reported in ("running", "paused"):
        return "running" if vm.reported == "running" else "paused"
    return "starting"
