"""Which start of the machine this is: what an agent, its watchdog and its drivers know of an earlier one is over."""

from __future__ import annotations

from pathlib import Path

__all__ = ["boot_id"]

_FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return what names this start of the machine."""
    return _FILE.read_text().strip()
