"""Identifies this start of the machine, and how long ago it was; for an agent, its watchdog and its drivers.

What they know from an earlier start is void. Suspended time counts: VMs may run elsewhere by now.
"""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["boot_id", "boottime_ns"]

_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the identity of this start of the machine."""
    return _FILE.read_text().strip()


def boottime_ns() -> int:
    """Return the time since the machine started, including suspended time."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
