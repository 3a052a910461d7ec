"""The sign of life of a watchdog: a file that it renews after every look that worked, and that the agent reads.

The control plane starts VMs elsewhere on the word of an agent that a watchdog stops them here. So the agent gives that
word only while it sees one work: in this boot, on the hypervisor that is its own, a few looks ago at most. A look that
worked went the whole way: it found the VMs, and tried out whether each that silence stops could be ended.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import msgspec

from hostler.agent.deadlines import FIND_S, FRESH_S
from hostler.agent.files import write_whole

__all__ = ["HaltCapacity", "Pulse", "PulseFile", "is_beating", "vms_in_time"]

_SECOND = 1_000_000_000
# What one more VM may cost a look: two small files, a line of /proc, a descriptor and a signal take well below 1 ms.
_ALLOWANCE_S = 0.005
_LOOKS = 60  # of the last minute: the slowest of them counts


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """When a watchdog last looked with success, at which hypervisor, and what it can do. Times count from this boot."""

    boot: str
    looked_at: int
    hypervisor: str
    stoppable: int = 1  # VMs that it stops in time; older watchdogs stop them one after the other
    refusals: tuple[str, ...] = ()  # what it asked of the machine for its own sake and did not get


def is_beating(pulse: Pulse | None, *, boot: str, hypervisor: str, now: int) -> bool:
    """Say whether a watchdog works on a hypervisor now; never for one that nothing outside its agent can stop."""
    if pulse is None or not hypervisor or (pulse.boot, pulse.hypervisor) != (boot, hypervisor):
        return False
    return now - pulse.looked_at < FRESH_S * _SECOND


def vms_in_time(look_s: float, vms: int, most_at_once: int) -> int:
    """Return how many VMs a watchdog can stop in time, if a look that went over so many took so long.

    Those that it went over fit, and as many more as there is time left for. Signals cost nothing beside the look, and
    SIGKILL comes at a time of its own.
    """
    if look_s >= FIND_S:
        return 0
    cost_s = max(_ALLOWANCE_S, look_s / vms if vms else 0.0)
    return min(vms + int((FIND_S - look_s) / cost_s), most_at_once)


class HaltCapacity:
    """How many VMs a watchdog stops in time, as it is reported: a power of two, by the slowest look of a minute.

    It changes seldom, because every change is news for the engine.
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
        write_whole(self._path, msgspec.json.encode(pulse))

    def read(self) -> Pulse | None:
        """Return the pulse; None if there is none that can be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Pulse)
        except (OSError, ValueError):
            return None

    def clear(self) -> None:
        """Say that no watchdog works here now."""
        self._path.unlink(missing_ok=True)
