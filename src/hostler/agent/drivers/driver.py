"""What an agent needs of a hypervisor: a few verbs, what it can do declared beforehand, refusals that say of what kind.

Implementations: ``fake``, ``qemu``, ``libvirt``. One contract suite runs what a driver declares and expects
``UnsupportedError`` for the rest. Verbs are level-triggered and idempotent: starting what runs is no error.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from hostler.agent.messages import Capabilities, HostSize, Order
from hostler.errors import HostlerError

__all__ = ["BlockedError", "Driver", "DriverError", "Found", "Landing", "PermanentError", "UnsupportedError"]

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


class UnsupportedError(PermanentError):
    """The driver does not do this; its capabilities say so."""

    code = "unsupported_by_driver"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A VM that exists on this host, whoever made it. ``is_ours`` is false for what the agent must never touch."""

    vm: str
    power: Power
    is_ours: bool = True
    cpu_count: int = 0
    memory_bytes: int = 0
    detail: str = ""


class Landing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a migration may be sent: an address that the source can reach, and the secret that opens it."""

    address: str
    secret: str


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

    async def create(self, order: Order) -> None:
        """Make the VM with its disks, stopped."""
        ...

    async def start(self, vm: str) -> None:
        """Let it run."""
        ...

    async def stop(self, vm: str, *, grace_s: float) -> None:
        """Ask it to end, and end it when it has not after the grace period."""
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
