"""What an agent needs of a hypervisor: a few verbs, declared capabilities, and typed errors.

The drivers are ``fake``, ``qemu`` and ``libvirt``. One contract suite runs what a driver declares, and expects
``UnsupportedError`` for the rest. Verbs are level-triggered and idempotent: starting a running VM is no error.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, Protocol

import msgspec

from hostler.agent.messages import Capabilities, HostSize, Order
from hostler.errors import HostlerError

__all__ = ["BlockedError", "DiskMissingError", "Driver", "DriverError", "HaltRehearsal", "Landing", "ObservedVm"]
__all__ += ["PermanentError", "StorageUnavailableError", "UnsupportedError"]

# ``landing``: waits for one that is being sent here. ``left``: what remains of one that was sent away.
Power = Literal["stopped", "running", "paused", "landing", "left"]


class DriverError(HostlerError):
    """A verb failed and may work when it is tried again."""

    code = "driver_failed"
    retryable = True


class PermanentError(DriverError):
    """The order cannot work: only another order helps."""

    code = "driver_refused"
    retryable = False


class BlockedError(DriverError):
    """Something outside must change first (no room, a missing image). Tried again without counting as a failure."""

    code = "driver_blocked"


class DiskMissingError(BlockedError):
    """A disk that was created once is not where it was. No new one is created in its place."""

    code = "disk_missing"


class StorageUnavailableError(BlockedError):
    """The file system or pool with the disks is missing, or is not the one that was there before."""

    code = "storage_unavailable"


class UnsupportedError(PermanentError):
    """The driver cannot do this; its capabilities say so."""

    code = "unsupported_by_driver"


class ObservedVm(msgspec.Struct, frozen=True, kw_only=True):
    """A VM that exists on this host. ``is_ours`` is false for what the agent must never touch.

    ``is_stray``: it runs, but its record is gone. It is never started a second time, and can be stopped and deleted.
    ``is_out_of_reach``: the storage with its record is unavailable, and no process of it was found.
    """

    vm: str
    power: Power
    is_ours: bool = True
    cpu_count: int = 0
    memory_bytes: int = 0
    detail: str = ""
    is_stray: bool = False
    is_out_of_reach: bool = False


class Landing(msgspec.Struct, frozen=True, kw_only=True):
    """Where to send a migration: an address that the source can reach, and the secret that opens it."""

    address: str
    secret: str


class HaltRehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rehearsal: whether the driver could halt the VMs."""

    failed: dict[str, str] = {}  # VM to why it could not be halted
    most_at_once: int = 1  # so many VMs can be halted together


class Driver(Protocol):
    """A driver of one hypervisor. All methods may raise ``DriverError`` and its subclasses."""

    name: str

    @property
    def capabilities(self) -> Capabilities:
        """Say what this driver can do on this machine."""
        ...

    async def open(self) -> None:
        """Prepare: find tools, make folders, find running VMs."""
        ...

    async def close(self) -> None:
        """Release everything but the VMs, which run on."""
        ...

    async def size(self) -> HostSize:
        """Return the total resources of this host, used or not."""
        ...

    async def find(self) -> list[ObservedVm]:
        """Return every VM on this host."""
        ...

    async def unavailable(self) -> dict[str, str]:
        """Return the unavailable storages, with what an operator can do; "" is the place of local disks.

        ``find`` may miss VMs on them. An empty mount point is unavailable storage, not an empty one.
        """
        ...

    async def create(self, order: Order) -> None:
        """Create the VM with its disks, stopped. If the order says that disks were created before, create none.

        Raise DiskMissingError if such a disk is missing, StorageUnavailableError if its storage is out of reach.
        """
        ...

    async def start(self, vm: str) -> None:
        """Start it."""
        ...

    async def stop(self, vm: str, *, grace_s: float) -> None:
        """Ask it to shut down, and kill it after the grace period."""
        ...

    async def find_running(self) -> list[ObservedVm]:
        """Return the VMs that run or may run, for a watchdog, without asking a VM or changing anything.

        A VM in an unknown state counts as running.
        """
        ...

    async def rehearse_halt(self, vms: Collection[str]) -> HaltRehearsal:
        """Do everything that halting these VMs takes, but leave them running; after ``find_running``."""
        ...

    async def halt(self, vms: Collection[str], *, polite_s: float, reap_s: float) -> dict[str, str]:
        """Halt VMs together: they may close their files for ``polite_s``, then all are killed within ``reap_s``.

        Return why for each VM that has not ended after both. It acts on the result of the last ``find_running``, so
        that a hanging disk keeps no VM running.
        """
        ...

    async def pause(self, vm: str) -> None:
        """Stop its processors and keep its memory."""
        ...

    async def resume(self, vm: str) -> None:
        """Let its processors run again."""
        ...

    async def resize(self, vm: str, order: Order) -> None:
        """Change a VM to the size of the order, running or stopped."""
        ...

    async def delete(self, vm: str, *, keeps_shared: bool = False) -> None:
        """Kill and remove it with its disks; with ``keeps_shared``, keep what lies on shared storage.

        Shared disks also stay if another host clearly has the VM: for a landing, and for a VM that was sent away and
        taken.
        """
        ...

    async def await_landing(self, order: Order) -> Landing:
        """Prepare to receive a VM from another host; idempotent until it has landed or was deleted."""
        ...

    async def send(self, vm: str, landing: Landing) -> None:
        """Copy a running VM there; returns when it runs there and no longer here. Its remains stay until delete."""
        ...
