"""Every command that README and the quickstart print can be typed as it stands.

Commands stand in blocks marked ``console``, on lines that begin with ``$ ``; all blocks of a page are one session. A
command must end with exit code 0, or with the one that a comment gives: ``$ hostler place … # exit 1``. Commands of
``make`` are only looked up in the Makefile: running them here would run these tests again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/quickstart.md")
# What a reader has who has cloned the repository, apart from the code.
DATA = ("demo", "data", "docs", "README.md")

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_EXIT = re.compile(r"\s+#\s*exit\s+([0-9]+)\s*$")
# A reader has nothing of this yet: what fetches, sets up or enters the repository.
_NOT_RUN = re.compile(r"(git clone|cd|source|pip install|python3? -m venv|kubectl)\b")
_MAKE = re.compile(r"make(?P<targets>(\s+[a-z][a-z-]*)*)\s*(#.*)?")


def commands_of(text: str) -> list[str]:
    """Return the commands of a page in order, continued lines joined."""
    found: list[str] = []
    for block in _BLOCK.findall(text):
        lines = iter(block.splitlines())
        for line in lines:
            if not line.startswith("$ "):
                continue
            command = line.removeprefix("$ ")
            while command.endswith("\\"):
                command = command[:-1] + next(lines, "").lstrip().removeprefix("> ")
            found.append(command)
    return found


def expected_code(command: str) -> int:
    """Return the exit code that a command must end with."""
    noted = _EXIT.search(command)
    return int(noted.group(1)) if noted else 0


def _page(name: str) -> str:
    path = ROOT / name
    return path.read_text() if path.is_file() else ""


def test_readme_shows_commands_once_it_exists():
    assert not (ROOT / "README.md").is_file() or commands_of(_page("README.md"))


@pytest.mark.parametrize("name", PAGES)
def test_every_target_of_make_exists(name):
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in commands_of(_page(name)):
        if match := _MAKE.fullmatch(command):
            assert set(match["targets"].split()) <= targets, command


@pytest.mark.parametrize("name", PAGES)
def test_every_command_can_be_typed_as_it_stands(name, tmp_path):
    for part in DATA:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tmp_path / part)
        elif source.is_file():
            shutil.copy(source, tmp_path / part)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("HOSTLER_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
    }
    for command in commands_of(_page(name)):
        if _MAKE.fullmatch(command) or _NOT_RUN.match(command):
            continue
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300,
        )  # fmt: skip
        assert done.returncode == expected_code(command), f"$ {command}\n{done.stdout}{done.stderr}"


class TestReadingPages:
    """How commands are found in a page."""

    def test_only_lines_with_a_dollar_in_console_blocks_count(self):
        text = "```console\n$ one\nits output\n$ two\n```\n```text\n$ three\n```\n```console\n$ four\n```\n"
        assert commands_of(text) == ["one", "two", "four"]

    def test_a_continued_line_is_one_command(self):
        assert commands_of("```console\n$ one \\\n    --two\n```\n") == ["one --two"]

    def test_an_exit_code_may_be_noted(self):
        assert expected_code("hostler place -f x  # exit 1") == 1
        assert expected_code("hostler place -f x") == 0
