"""What an agent needs of a hypervisor: a few verbs, what it can do declared beforehand, refusals that say of what kind.

Implementations: ``fake``, ``qemu``, ``libvirt``. One contract suite runs what a driver declares and expects
``UnsupportedError`` for the rest. Verbs are level-triggered and idempotent: starting what runs is no error.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, Protocol

import msgspec

from hostler.agent.messages import Capabilities, HostSize, Order
from hostler.errors import HostlerError

__all__ = ["BlockedError", "DiskMissingError", "Driver", "DriverError", "Found", "HaltRehearsal", "Landing"]
__all__ += ["PermanentError", "StorageUnavailableError", "UnsupportedError"]

# ``landing``: waits for one that is being sent here. ``left``: what remains of one that was sent away.
Power = Literal["stopped", "running", "paused", "landing", "left"]


class DriverError(HostlerError):
    """A verb failed and may work when it is tried again."""

    code = "driver_failed"
    retryable = True


class PermanentError(DriverError):
    """It cannot work for this order: only another order helps."""

    code = "driver_refused"
    retryable = False


class BlockedError(DriverError):
    """Something outside must change first (no room, a missing image): tried again without counting as a failure."""

    code = "driver_blocked"


class DiskMissingError(BlockedError):
    """A disk was made once and is not where it was: nothing is made in its place."""

    code = "disk_missing"


class StorageUnavailableError(BlockedError):
    """The file system or pool that disks lie on is not there, or not the one that was there before."""

    code = "storage_unavailable"


class UnsupportedError(PermanentError):
    """The driver does not do this; its capabilities say so."""

    code = "unsupported_by_driver"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A VM that exists on this host, whoever made it. ``is_ours`` is false for what the agent must never touch.

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
    """Where a migration may be sent: an address that the source can reach, and the secret that opens it."""

    address: str
    secret: str


class HaltRehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver found when it tried out whether it could halt VMs."""

    failed: dict[str, str] = {}  # VM to why it could not be halted
    most_at_once: int = 1  # so many VMs can be halted together


class Driver(Protocol):
    """The verbs. All of them may raise ``DriverError`` and its kinds."""

    name: str

    @property
    def capabilities(self) -> Capabilities:
        """Say what this driver can do on this machine."""
        ...

    async def open(self) -> None:
        """Get ready: find tools, make folders, find VMs that run already."""
        ...

    async def close(self) -> None:
        """Let go of everything but the VMs, which run on."""
        ...

    async def size(self) -> HostSize:
        """Return what this host has in all, whatever is used."""
        ...

    async def find(self) -> list[Found]:
        """Return every VM on this host."""
        ...

    async def unavailable(self) -> dict[str, str]:
        """Return the storages that are out of reach, with what an operator can do; "" is the place of local disks.

        ``find`` may miss VMs that lie there. An empty mount point is unavailable storage, not an empty one.
        """
        ...

    async def create(self, order: Order) -> None:
        """Make the VM with its disks, stopped. If the order says that disks were made before, make none of them.

        Raise DiskMissingError for a disk that was made before and is not there, StorageUnavailableError if its storage
        is out of reach.
        """
        ...

    async def start(self, vm: str) -> None:
        """Let it run."""
        ...

    async def stop(self, vm: str, *, grace_s: float) -> None:
        """Ask it to end, and end it when it has not after the grace period."""
        ...

    async def find_running(self) -> list[Found]:
        """Return the VMs that run here or might, for a watchdog: no VM is asked, nothing is changed or finished.

        A VM whose state is unknown counts as running.
        """
        ...

    async def rehearse_halt(self, vms: Collection[str]) -> HaltRehearsal:
        """Do all that halting these VMs takes, but leave them running; it needs what ``find_running`` saw last."""
        ...

    async def halt(self, vms: Collection[str], *, polite_s: float, reap_s: float) -> dict[str, str]:
        """End VMs together: all may close their files for ``polite_s``, then all are killed and gone in ``reap_s``.

        Return why for each that has not ended after both. It acts on what ``find_running`` saw last, so that a disk
        that hangs keeps no VM running.
        """
        ...

    async def pause(self, vm: str) -> None:
        """Stop its processors, keep its memory."""
        ...

    async def resume(self, vm: str) -> None:
        """Let its processors run again."""
        ...

    async def resize(self, vm: str, order: Order) -> None:
        """Bring a VM to the size of the order, running or stopped."""
        ...

    async def delete(self, vm: str, *, keeps_shared: bool = False) -> None:
        """End it and remove all of it, disks included; with ``keeps_shared`` nothing that lies on shared storage.

        Nor where it is plain that another host has the VM: of a landing, and of one that was sent away and taken.
        """
        ...

    async def await_landing(self, order: Order) -> Landing:
        """Prepare to receive a VM that runs elsewhere; idempotent until it has landed or was deleted."""
        ...

    async def send(self, vm: str, landing: Landing) -> None:
        """Copy a running VM there; returns when it runs there and no longer here. Its remains are kept until delete."""
        ...
