"""Processes of this machine, as tests see them from outside."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def processes_about(folder: Path) -> dict[int, str]:
    """Return the processes whose command line names this folder, zombies aside."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found[int(path.name)] = command
    return found
