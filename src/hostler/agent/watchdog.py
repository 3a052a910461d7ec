"""Stops VMs whose order says so when their host has lost the control plane: the proof that they do not run here.

It runs outside the agent, so that a hung or killed agent changes nothing. The lease is a file that the agent renews
whenever a report was answered, dated when that report was *sent*: so its age is never less than what the control plane
counts, and stopping at an age below the control plane's limit is in time. ``due`` decides and is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from hostler.agent.drivers.driver import Driver, DriverError, Found
from hostler.agent.files import write_whole
from hostler.agent.manifest import FileManifest
from hostler.agent.state import Record

__all__ = ["Lease", "LeaseFile", "Looked", "Watchdog", "due"]

_SECOND = 1_000_000_000


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """When the control plane last heard of this host (steady nanoseconds of this boot), and the age that ends it."""

    boot: str
    renewed_at: int
    stop_after_s: float  # 0: nothing is ever stopped


def due(lease: Lease | None, records: Iterable[Record], found: Iterable[Found], boot: str, now: int) -> list[str]:
    """Return the VMs that must be stopped now: those that run, whose order says so, and whose lease is too old.

    Without a lease nothing was ever promised. One of another boot is as old as can be.
    """
    if lease is None or lease.stop_after_s <= 0:
        return []
    if lease.boot == boot and now - lease.renewed_at < lease.stop_after_s * _SECOND:
        return []
    stoppable = {record.vm for record in records if record.when_silent == "stop"}
    return sorted(
        vm.vm for vm in found if vm.is_ours and vm.vm in stoppable and vm.power in ("running", "paused", "landing")
    )


_OF_ANOTHER_BOOT = Lease(boot="", renewed_at=0, stop_after_s=1.0)


class LeaseFile:
    """The lease on disk. It is renamed into place but not forced: after a power cut nothing runs here anyway."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, lease: Lease) -> None:
        """Renew the lease."""
        write_whole(self._path, msgspec.json.encode(lease))

    def read(self) -> Lease | None:
        """Return the lease; None where there is none. One that cannot be read is of before a power cut."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Lease)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _OF_ANOTHER_BOOT


class Looked(NamedTuple):
    """What came of a look: the VMs that were stopped, and why others were not. With none of these it worked."""

    stopped: list[str]
    failed: list[str]


class Watchdog:
    """Looks at the lease, as often as it is asked to, and stops what is due."""

    def __init__(
        self, driver: Driver, manifest: FileManifest, lease: LeaseFile, *, boot: str, clock: Callable[[], int]
    ) -> None:
        self._driver = driver
        self._manifest = manifest
        self._lease = lease
        self._boot = boot
        self._clock = clock

    async def look(self) -> Looked:
        """Look once, and stop what is due; the next look tries again what failed."""
        lease = self._lease.read()
        records = self._manifest.peek() if lease is not None else ()
        if not due(lease, records, _as_if_running(records), self._boot, self._clock()):
            # The usual case. No VM is asked for, but a hypervisor that answers nothing would not stop one either.
            await self._driver.size()
            return Looked([], [])
        stopped, failed = [], []
        for vm in due(lease, records, await self._driver.find(), self._boot, self._clock()):
            try:
                await self._driver.stop(vm, grace_s=0.0)
                stopped.append(vm)
            except DriverError as error:
                failed.append(error.message)
        return Looked(stopped, failed)


def _as_if_running(records: Iterable[Record]) -> list[Found]:
    return [Found(vm=record.vm, power="running") for record in records]
