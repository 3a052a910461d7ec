"""Types the commands of a guide into one shell, as a reader would; only the ports are others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port

__all__ = ["type_in"]

PATIENCE_S = 480  # a guard, not a measure
_PORTS = ("8470", "8471", "8472")


def type_in(folder: Path, lines: list[str], *, programs: tuple[str, ...] = ("curl",), **more: str) -> str:
    """Type commands into a shell, in a folder, with ports that are free; return what they print."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    script = "\n".join(["set -e -m", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *lines, "echo all done"])
    for port in _PORTS:
        script = script.replace(f":{port}", f":{free_port()}")
    home = folder / "home"
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        **more,
    }
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr + "".join(path.read_text() for path in folder.glob("*.log"))
    assert (done.returncode, "all done" in done.stdout) == (0, True), said
    return done.stdout
