"""The sign of life of a watchdog: a file that it renews after every look that worked, and that the agent reads.

The control plane starts VMs elsewhere on the word of an agent that a watchdog stops them here. So the agent gives that
word only while it sees one work: in this boot, on the hypervisor that is its own, a few looks ago at most.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from hostler.agent.files import write_whole

__all__ = ["FRESH_S", "LOOK_S", "Pulse", "PulseFile", "is_beating"]

LOOK_S = 1.0  # between two looks of a watchdog
# A few looks: one that is late on a busy machine is not dead yet, and stops VMs within the control plane's margin.
FRESH_S = 5.0

_SECOND = 1_000_000_000


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """When a watchdog last looked with success, in steady nanoseconds of this boot, and at which hypervisor."""

    boot: str
    looked_at: int
    hypervisor: str


def is_beating(pulse: Pulse | None, *, boot: str, hypervisor: str, now: int) -> bool:
    """Say whether a watchdog works on a hypervisor now; never for one that nothing outside its agent can stop."""
    if pulse is None or not hypervisor or (pulse.boot, pulse.hypervisor) != (boot, hypervisor):
        return False
    return now - pulse.looked_at < FRESH_S * _SECOND


class PulseFile:
    """The pulse on disk. It is renamed into place but not forced: one of an earlier boot counts for nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, pulse: Pulse) -> None:
        """Renew the pulse."""
        write_whole(self._path, msgspec.json.encode(pulse))

    def read(self) -> Pulse | None:
        """Return the pulse; None where there is none that can be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Pulse)
        except (OSError, msgspec.DecodeError):
            return None

    def clear(self) -> None:
        """Say that nobody watches any more."""
        self._path.unlink(missing_ok=True)
