"""Stops VMs whose order says so when their host has lost the control plane: the proof that they do not run here.

It runs outside the agent, so that a hung or killed agent changes nothing. The lease is a file that the agent renews
whenever a report was answered, dated when that report was *sent*: so its age is never less than what the control plane
counts, and stopping at an age below the control plane's limit is in time. ``due`` decides and is pure.

``deadlines`` has the timeline. The invariant: a look claims success only for VMs whose end the kernel has confirmed,
and a look at which nothing was due has found the VMs and tried out whether each of them could be ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec

from hostler.agent.background_thread import BackgroundThread
from hostler.agent.boot import boottime_ns
from hostler.agent.deadlines import FIND_S, KILL_S, POLITE_S, REAP_S
from hostler.agent.drivers.driver import Driver, Found
from hostler.agent.files import write_whole
from hostler.agent.manifest import FileManifest
from hostler.agent.pulse import vms_in_time
from hostler.agent.state import Record
from hostler.errors import HostlerError

__all__ = ["Lease", "LeaseFile", "Watchdog", "WatchdogLook", "describe", "due", "stoppable"]

_SECOND = 1_000_000_000
_RUNNING = ("running", "paused", "landing")
_CLOCK = "boottime"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """When the control plane last heard of this host (nanoseconds of this boot), and the age that ends it."""

    boot: str
    renewed_at: int
    stop_after_s: float  # 0: nothing is ever stopped
    clock: str = ""  # by which it was dated: empty in leases of older agents, that did not count suspended time


def due(lease: Lease | None, records: Iterable[Record], found: Iterable[Found], boot: str, now: int) -> list[str]:
    """Return the VMs that must be stopped now: those that run, whose order says so, and whose lease is too old.

    Without a lease nothing was ever promised. One of another boot is as old as can be.
    """
    if lease is None or lease.stop_after_s <= 0:
        return []
    if lease.boot == boot and now - lease.renewed_at < lease.stop_after_s * _SECOND:
        return []
    return stoppable(records, found)


def stoppable(records: Iterable[Record], found: Iterable[Found]) -> list[str]:
    """Return the VMs that silence stops: those that run, and whose order says so."""
    asked = {record.vm for record in records if record.when_silent == "stop"}
    return sorted(vm.vm for vm in found if vm.is_ours and vm.vm in asked and vm.power in _RUNNING)


_OF_ANOTHER_BOOT = Lease(boot="", renewed_at=0, stop_after_s=1.0)


class LeaseFile:
    """The lease on disk. It is renamed into place but not forced: after a power cut nothing runs here anyway."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, lease: Lease) -> None:
        """Renew the lease."""
        write_whole(self._path, msgspec.json.encode(msgspec.structs.replace(lease, clock=_CLOCK)))

    def read(self) -> Lease | None:
        """Return the lease; None if there is none. One that makes no sense is of before a power cut."""
        try:
            lease = msgspec.json.decode(self._path.read_bytes(), type=Lease)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _OF_ANOTHER_BOOT
        if lease.clock == _CLOCK:
            return lease
        steady = time.monotonic_ns()
        return msgspec.structs.replace(lease, renewed_at=lease.renewed_at + boottime_ns() - steady, clock=_CLOCK)


class WatchdogLook(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a look: the VMs that were stopped, and what went wrong. With nothing wrong it worked."""

    stopped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    rehearsed: int = 0  # VMs that it tried out to stop
    stoppable: int = 0  # VMs that the next look could stop in time


class Watchdog:
    """Looks at the lease, as often as it is asked to, and stops what is due.

    Nothing that goes wrong in one part of a look keeps the others from being done: what cannot be read now is as it was
    at the last look, and every failure is reported. ``clock`` counts the time for which the host was suspended, too.
    """

    def __init__(
        self,
        driver: Driver,
        manifest: FileManifest,
        lease: LeaseFile,
        *,
        boot: str,
        clock: Callable[[], int],
        find_s: float = FIND_S,
    ) -> None:
        self._driver = driver
        self._manifest = manifest
        self._lease_file = lease
        self._boot = boot
        self._clock = clock
        self._find_s = find_s
        self._lease: Lease | None = None
        self._records: tuple[Record, ...] = ()
        self._found: list[Found] = []
        self._most_at_once = 0
        self._files = BackgroundThread("reading the lease and the records")

    async def look(self) -> WatchdogLook:
        """Look once: stop what is due, or else try out whether all could be stopped. The next look tries again."""
        began, failed = self._clock(), list[str]()
        ends_at = asyncio.get_running_loop().time() + self._find_s
        await self._try("the lease and the records cannot be read", self._read_files(), ends_at, failed)
        await self._try("VMs cannot be found", self._find(), ends_at, failed)
        vms = due(self._lease, self._records, self._found, self._boot, self._clock())
        if vms:
            return await self._stop(vms, failed)
        await self._try("VMs could not be stopped", self._rehearse(failed), ends_at, failed)
        if failed:
            return WatchdogLook(failed=tuple(failed))
        look_s = (self._clock() - began) / _SECOND
        return WatchdogLook(
            rehearsed=len(stoppable(self._records, self._found)),
            stoppable=vms_in_time(look_s, len(self._found), self._most_at_once),
        )

    async def _try(self, what: str, part: Awaitable[None], ends_at: float, failed: list[str]) -> None:
        """Do a part of a look; report whatever it raises, and that it takes too long."""
        try:
            async with asyncio.timeout_at(ends_at):
                await part
        except Exception as error:
            failed.append(f"{what}: {describe(error)}")

    async def _read_files(self) -> None:
        """Read the lease, then the records: in a thread, because a disk may hang."""
        self._lease = await self._files.run(self._lease_file.read)
        self._records = await self._files.run(self._manifest.peek) if self._lease is not None else ()

    async def _find(self) -> None:
        self._found = await self._driver.find_running()

    async def _rehearse(self, failed: list[str]) -> None:
        rehearsal = await self._driver.rehearse_halt(stoppable(self._records, self._found))
        self._most_at_once = rehearsal.most_at_once
        failed += rehearsal.failed.values()

    async def _stop(self, vms: list[str], failed: list[str]) -> WatchdogLook:
        """Stop VMs together. They may close their files until the time comes at which all of them are killed."""
        lease = self._lease
        late_s = (self._clock() - lease.renewed_at) / _SECOND - lease.stop_after_s if lease is not None else KILL_S
        polite_s = min(max(KILL_S - late_s, 0.0), POLITE_S)
        if lease is not None and lease.boot != self._boot:
            polite_s = 0.0  # nobody knows how long ago it ran out
        try:
            async with asyncio.timeout(POLITE_S + 2 * REAP_S):
                left = await self._driver.halt(vms, polite_s=polite_s, reap_s=REAP_S)
        except Exception as error:
            return WatchdogLook(failed=(*failed, f"VMs cannot be stopped: {describe(error)}"))
        stopped = tuple(vm for vm in vms if vm not in left)
        return WatchdogLook(stopped=stopped, failed=(*failed, *left.values()))


def describe(error: Exception) -> str:
    """Return what an error of any kind says; its kind, if it says nothing."""
    if isinstance(error, TimeoutError):
        return "it takes too long"
    return error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
