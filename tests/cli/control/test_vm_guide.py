"""The guide to these commands can be typed as it stands, and its program runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import MAIN, secret
from tests.cli.control.control_plane_thread import plane
from tests.docs.page_commands import steps_of
from tests.docs.page_output import AGES, EVENT_NUMBERS, IDS, TIMES, Page

ADDRESS = "http://127.0.0.1:8470"
_BLOCK = re.compile(r"^```(console|yaml|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _run(command: str, folder: Path) -> tuple[int, str]:
    """Run a line of the guide: what needs a shell in one, the rest in this process, which is much faster."""
    if command.startswith("hostler "):
        result = hostler(*shlex.split(command, comments=True)[1:])
        return result.code, result.out + result.err
    program = folder / "bin" / "hostler"
    if not program.exists():
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\n{MAIN}\n")
        program.chmod(0o700)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.shown_output
def test_every_command_prints_what_the_guide_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HOSTLER_")]:
        monkeypatch.delenv(name)
    page = Page("docs/guides/vm-commands.md", volatile=(AGES, EVENT_NUMBERS, IDS, TIMES))
    steps = iter(page.steps)
    with plane(tmp_path, "node-1", "node-2", "node-3") as running:
        secret(tmp_path / "admin.key", running.key)
        for kind, text in _BLOCK.findall(page.text):
            if kind == "yaml":
                (tmp_path / "vm.yaml").write_text(text)
            elif kind == "python":
                done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
                assert (done.returncode, "web-1 running node-" in done.stdout) == (0, True), done.stderr + done.stdout
            else:
                for _ in steps_of(f"```console\n{text}```\n"):
                    step = next(steps)
                    code, said = _run(step.command.replace(ADDRESS, running.address), tmp_path)
                    page.compare(step, code, said, {running.address: ADDRESS})
    assert len(page.steps) > 30
    page.finish()
