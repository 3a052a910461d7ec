"""Types the commands of a page into one shell, as a reader would; only the ports are others."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs.page_commands import Shell, Step
from tests.docs.page_output import Page
from tests.ports import free_port

__all__ = ["type_steps"]

_PORTS = ("8470", "8471", "8472")


def type_steps(
    page: Page, steps: Iterable[Step], folder: Path, *, programs: tuple[str, ...] = ("curl",), **more: str
) -> str:
    """Type commands of a page in a folder, compare what they print, and return it. Then end all processes."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    home = folder / "home"
    variables = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        **more,
    }
    free = {f":{port}": f":{free_port()}" for port in _PORTS}
    printed: list[str] = []
    with Shell(folder, sys.executable, **variables) as shell:
        try:
            for step in steps:
                code, lines = shell.type(_replace(step.command, free))
                printed += lines
                page.compare(step, code, "\n".join(lines), {there: here for here, there in free.items()})
        except AssertionError as error:
            logs = "".join(path.read_text() for path in folder.glob("*.log"))
            raise AssertionError(f"{error}\n-- logs:\n{logs}") from None
        finally:
            shell.type('test -z "$(jobs -p)" || { kill $(jobs -p); wait; }')
    return "\n".join(printed)


def _replace(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text
