"""Stops VMs when their host has lost the control plane, so that they can be started elsewhere.

The watchdog runs outside the agent, so it works even if the agent hangs or was killed. The agent renews a lease file
whenever the control plane answers a report. Each VM's order says whether silence stops the VM (``when_silent``).
``due`` decides, and is pure::

    lease                                  VMs whose order says "stop"
    none, or stop_after_s is 0             run on: the control plane was never promised anything
    of this boot, younger than the limit   run on; the scan rehearses the halt
    of this boot, older                    SIGTERM, then SIGKILL at a fixed time (``deadlines``)
    of another boot                        SIGKILL at once: its age is unknown

One scan reads the lease, reads the records, finds the VMs, and then stops or rehearses. Failures are independent: a
part that fails uses the result of the last scan, and every failure is reported. The disk may hang, so files are read in
a thread with a deadline, and VMs that were seen before can be halted without any disk.

Invariants:

- The lease has the time at which the report was *sent*, by a clock that counts suspended time too. So its age is never
  less than the silence that the control plane counts, and stopping at a smaller age is early enough.
- A scan reports a VM as stopped only after the kernel has confirmed its end.
- A scan counts as a success (``pulse``) only if it found the VMs and rehearsed the halt of each one. So an agent
  promises only what the watchdog can do.
- SIGKILL comes at a time, not after a wait. So a slow VM does not delay the proof.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec

from hostler.agent.background_thread import BackgroundThread
from hostler.agent.boot import boottime_ns
from hostler.agent.core.state import Record
from hostler.agent.driver import Driver, ObservedVm
from hostler.agent.manifest import FileManifest
from hostler.agent.watchdog.deadlines import FIND_S, KILL_S, POLITE_S, REAP_S
from hostler.agent.watchdog.pulse import vms_in_time
from hostler.errors import HostlerError
from hostler.runtime.files import write_file

__all__ = ["LeaseFile", "Watchdog", "WatchdogLease", "WatchdogScan", "describe", "due", "stoppable"]

_SECOND = 1_000_000_000
_RUNNING = ("running", "paused", "landing")
_CLOCK = "boottime"


class WatchdogLease(msgspec.Struct, frozen=True, kw_only=True):
    """When the control plane last answered (nanoseconds of this boot), and the age at which VMs are stopped."""

    boot: str
    renewed_at: int
    stop_after_s: float  # 0: nothing is ever stopped
    clock: str = ""  # by which it was dated: empty in leases of older agents, that did not count suspended time


def due(
    lease: WatchdogLease | None, records: Iterable[Record], found: Iterable[ObservedVm], boot: str, now: int
) -> list[str]:
    """Return the VMs to stop now: those that run, whose order says so, and whose lease is too old.

    Without a lease nothing was promised. A lease of another boot counts as infinitely old.
    """
    if lease is None or lease.stop_after_s <= 0:
        return []
    if lease.boot == boot and now - lease.renewed_at < lease.stop_after_s * _SECOND:
        return []
    return stoppable(records, found)


def stoppable(records: Iterable[Record], found: Iterable[ObservedVm]) -> list[str]:
    """Return the VMs that silence stops: those that run and whose order says so."""
    asked = {record.vm for record in records if record.when_silent == "stop"}
    return sorted(vm.vm for vm in found if vm.is_ours and vm.vm in asked and vm.power in _RUNNING)


_OF_ANOTHER_BOOT = WatchdogLease(boot="", renewed_at=0, stop_after_s=1.0)


class LeaseFile:
    """The lease on disk. It is replaced by a rename without a sync, because a power cut ends all VMs anyway."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, lease: WatchdogLease) -> None:
        """Renew the lease."""
        write_file(self._path, msgspec.json.encode(msgspec.structs.replace(lease, clock=_CLOCK)))

    def read(self) -> WatchdogLease | None:
        """Return the lease; None if there is none. An unreadable one comes from before a power cut."""
        try:
            lease = msgspec.json.decode(self._path.read_bytes(), type=WatchdogLease)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _OF_ANOTHER_BOOT
        if lease.clock == _CLOCK:
            return lease
        steady = time.monotonic_ns()
        return msgspec.structs.replace(lease, renewed_at=lease.renewed_at + boottime_ns() - steady, clock=_CLOCK)


class WatchdogScan(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a scan: VMs that were stopped, and failures. A scan without failures worked."""

    stopped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    rehearsed: int = 0  # VMs that it tried out to stop
    stoppable: int = 0  # VMs that the next look could stop in time


class Watchdog:
    """Scans the lease and the VMs whenever it is asked to, and stops VMs that are due.

    A failure in one part of a scan does not stop the other parts: what cannot be read is taken from the last scan, and
    every failure is reported. ``clock`` also counts the time for which the host was suspended.
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
        self._lease: WatchdogLease | None = None
        self._records: tuple[Record, ...] = ()
        self._found: list[ObservedVm] = []
        self._most_at_once = 0
        self._files = BackgroundThread("reading the lease and the records")

    async def look(self) -> WatchdogScan:
        """Scan once: stop the VMs that are due, or rehearse stopping them. The next scan tries again."""
        began, failed = self._clock(), list[str]()
        ends_at = asyncio.get_running_loop().time() + self._find_s
        await self._try("the lease and the records cannot be read", self._read_files(), ends_at, failed)
        await self._try("VMs cannot be found", self._find(), ends_at, failed)
        vms = due(self._lease, self._records, self._found, self._boot, self._clock())
        if vms:
            return await self._stop(vms, failed)
        await self._try("VMs could not be stopped", self._rehearse(failed), ends_at, failed)
        if failed:
            return WatchdogScan(failed=tuple(failed))
        look_s = (self._clock() - began) / _SECOND
        return WatchdogScan(
            rehearsed=len(stoppable(self._records, self._found)),
            stoppable=vms_in_time(look_s, len(self._found), self._most_at_once),
        )

    async def _try(self, what: str, part: Awaitable[None], ends_at: float, failed: list[str]) -> None:
        """Do a part of a scan; report an error or a timeout."""
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

    async def _stop(self, vms: list[str], failed: list[str]) -> WatchdogScan:
        """Stop VMs together. They may close their files until the time at which all of them are killed."""
        lease = self._lease
        late_s = (self._clock() - lease.renewed_at) / _SECOND - lease.stop_after_s if lease is not None else KILL_S
        polite_s = min(max(KILL_S - late_s, 0.0), POLITE_S)
        if lease is not None and lease.boot != self._boot:
            polite_s = 0.0  # it is unknown how long ago it ran out
        try:
            async with asyncio.timeout(POLITE_S + 2 * REAP_S):
                left = await self._driver.halt(vms, polite_s=polite_s, reap_s=REAP_S)
        except Exception as error:
            return WatchdogScan(failed=(*failed, f"VMs cannot be stopped: {describe(error)}"))
        stopped = tuple(vm for vm in vms if vm not in left)
        return WatchdogScan(stopped=stopped, failed=(*failed, *left.values()))


def describe(error: Exception) -> str:
    """Return the message of an error; its kind, if it has none."""
    if isinstance(error, TimeoutError):
        return "it takes too long"
    return error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
