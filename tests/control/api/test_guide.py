"""The guide can be typed as it stands, in one shell; only the port is another one."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.shell import type_in

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "control-plane.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Return the commands of the guide, in order."""
    lines = [line for block in _BLOCK.findall(GUIDE.read_text()) for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def test_every_command_of_the_guide_does_what_it_says(tmp_path: Path) -> None:
    printed = type_in(tmp_path, commands())
    for words in ("node-1", "Running VMs: 2", "insufficient cpu"):
        assert words in printed, words


def test_the_guide_tells_no_code_that_the_service_does_not_have() -> None:
    told = set(re.findall(r"^\| \d+ \| `([a-z_]+)`", GUIDE.read_text(), re.MULTILINE))
    source = Path(__file__).resolve().parents[3] / "src" / "hostler" / "control"
    known = "".join(path.read_text() for path in source.rglob("*.py"))
    assert told
    assert all(f'code = "{code}"' in known for code in told)
