"""The guide can be typed as it stands, in one shell; only the port is another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.page_output import AGES, IDS, ROOT, SIZES, TIMES, Page
from tests.docs.shell import type_steps

NAME = "docs/guides/control-plane.md"
VOLATILE = (AGES, IDS, SIZES, TIMES)


@pytest.mark.shown_output
def test_every_command_prints_what_the_guide_shows(tmp_path: Path) -> None:
    page = Page(NAME, VOLATILE)
    printed = type_steps(page, page.steps, tmp_path)
    page.finish()
    for words in ("node-1", "Running VMs: 2", "insufficient cpu"):
        assert words in printed, words


def test_the_guide_tells_no_code_that_the_service_does_not_have() -> None:
    told = set(re.findall(r"^\| \d+ \| `([a-z_]+)`", (ROOT / NAME).read_text(), re.MULTILINE))
    source = ROOT / "src" / "hostler" / "control"
    known = "".join(path.read_text() for path in source.rglob("*.py"))
    assert told
    assert all(f'code = "{code}"' in known for code in told)
