"""Which start of the machine this is, and how long ago it was: what an agent, its watchdog and its drivers go by.

What they know of an earlier start is over. The time of a suspended machine counts: its VMs may run elsewhere by now.
"""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["boot_id", "boottime_ns"]

_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return what names this start of the machine."""
    return _FILE.read_text().strip()


def boottime_ns() -> int:
    """Return the time since the machine started, with the time for which it was suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
