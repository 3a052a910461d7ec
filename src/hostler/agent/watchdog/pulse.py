"""The sign of life of a watchdog: a file that it renews after every successful scan, and that the agent reads.

If an agent says that a watchdog stops VMs here, the control plane starts them elsewhere. So the agent says that only
while it sees a working one: in this boot, on its own hypervisor, with a recent scan. A successful scan is complete: it
found the VMs, and rehearsed the halt of each one that silence stops.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import msgspec

from hostler.agent.watchdog.deadlines import FIND_S, FRESH_S
from hostler.runtime.files import write_file

__all__ = ["HaltCapacity", "Pulse", "PulseFile", "is_beating", "vms_in_time"]

_SECOND = 1_000_000_000
# What one more VM may cost a look: two small files, a line of /proc, a descriptor and a signal take well below 1 ms.
_ALLOWANCE_S = 0.005
_LOOKS = 60  # of the last minute: the slowest of them counts


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """When a watchdog last scanned with success, which hypervisor, and what it can do. Times count from this boot."""

    boot: str
    looked_at: int
    hypervisor: str
    stoppable: int = 1  # VMs that it stops in time; older watchdogs stop them one after the other
    refusals: tuple[str, ...] = ()  # what it asked of the machine for its own sake and did not get


def is_beating(pulse: Pulse | None, *, boot: str, hypervisor: str, now: int) -> bool:
    """Say whether a watchdog works on a hypervisor now; never for one that only its agent can stop."""
    if pulse is None or not hypervisor or (pulse.boot, pulse.hypervisor) != (boot, hypervisor):
        return False
    return now - pulse.looked_at < FRESH_S * _SECOND


def vms_in_time(look_s: float, vms: int, most_at_once: int) -> int:
    """Return how many VMs a watchdog can stop in time, from the duration of a scan over so many VMs.

    The scanned VMs fit, and as many more as the remaining time allows. Signals cost nothing beside the scan, and
    SIGKILL comes at a fixed time.
    """
    if look_s >= FIND_S:
        return 0
    cost_s = max(_ALLOWANCE_S, look_s / vms if vms else 0.0)
    return min(vms + int((FIND_S - look_s) / cost_s), most_at_once)


class HaltCapacity:
    """How many VMs a watchdog stops in time, as reported: a power of two, by the slowest scan of a minute.

    It changes rarely, because every change is news for the engine.
    """

    def __init__(self) -> None:
        self._counts: deque[int] = deque(maxlen=_LOOKS)

    def note(self, count: int, *, rehearsed: int = 0) -> int:
        """Take in what a look found out; return what to report, and no less than it has just rehearsed in time."""
        self._counts.append(count)
        least = min(self._counts)
        return max(1 << least.bit_length() - 1 if least > 0 else 0, min(rehearsed, count))


class PulseFile:
    """The pulse on disk. It is renamed into place but not forced: one of an earlier boot counts for nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, pulse: Pulse) -> None:
        """Renew the pulse."""
        write_file(self._path, msgspec.json.encode(pulse))

    def read(self) -> Pulse | None:
        """Return the pulse; None if there is none that can be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Pulse)
        except (OSError, ValueError):
            return None

    def clear(self) -> None:
        """Say that no watchdog works here now."""
        self._path.unlink(missing_ok=True)
