"""What tests look at from outside: processes of this machine, and answers that come after a while."""

from __future__ import annotations

import time
from collections.abc import Callable
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


def eventually(look: Callable[[], T], *, patience_s: float = 120.0) -> T:
    """Return what ``look`` sees once that is true."""
    deadline = time.monotonic() + patience_s
    while not (seen := look()):
        assert time.monotonic() < deadline, f"still {seen!r} after {patience_s} s"
        time.sleep(0.05)
    return seen
