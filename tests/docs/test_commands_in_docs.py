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
PAGES = ("README.md", "docs/quickstart.md", "docs/guides/scenarios.md")
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


def _environment() -> dict[str, str]:
    """Return the environment of a reader: without settings of whoever runs the tests, and with the command."""
    others = {key: value for key, value in os.environ.items() if not key.startswith("HOSTLER_")}
    return others | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


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
    environment = _environment() | {"XDG_CONFIG_HOME": str(tmp_path / ".config")}
    for command in commands_of(_page(name)):
        if _MAKE.fullmatch(command) or _NOT_RUN.match(command):
            continue
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300,
        )  # fmt: skip
        assert done.returncode == expected_code(command), f"$ {command}\n{done.stdout}{done.stderr}"


def _blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", _page(name), re.DOTALL | re.MULTILINE)


def _run(command: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300, env=_environment(),
    )  # fmt: skip
    return done.stdout


def test_readme_shows_what_its_commands_print():
    commands = [command for command in commands_of(_page("README.md")) if command.startswith("hostler ")]
    shown = [block for block in _blocks("README.md", "text") if "kubectl" not in block]
    assert len(commands) == len(shown)
    for command, block in zip(commands, shown, strict=True):
        printed = _run(command).splitlines()
        at = -1
        for line in block.splitlines():
            if line != "...":
                assert line in printed[at + 1 :], f"$ {command}\n{line}"
                at = printed.index(line, at + 1)


def test_the_python_of_readme_runs(capsys):
    (code,) = _blocks("README.md", "python")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "web goes to a\n"


def test_the_quickstart_shows_what_strict_budgets_change():
    strict = next(command for command in commands_of(_page("docs/quickstart.md")) if "--budgets strict" in command)
    plain = strict.replace(" --budgets strict", "")
    assert ("report-1" in _run(plain), "report-1" in _run(strict)) == (True, False)


def test_every_page_reads_a_cluster_in_the_same_way():
    pages = ("README.md", "docs/quickstart.md", "docs/guides/manifests.md", "demo/run")
    lines = [re.findall(r"^ *(kubectl get .*)$", _page(name), re.MULTILINE) for name in pages]
    assert [len(found) for found in lines] == [1] * len(pages)
    assert len({line for found in lines for line in found}) == 1


def test_every_link_of_readme_and_the_quickstart_leads_somewhere():
    for name in (*PAGES, "docs/README.md", "docs/comparison.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", _page(name)):
            assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"


def test_index_links_every_page():
    linked = set(re.findall(r"\]\(([^)#:]+)\)", _page("docs/README.md")))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert pages - {"README.md"} <= linked


def test_every_guide_begins_with_its_outcome_and_time():
    for page in (ROOT / "docs" / "guides").glob("*.md"):
        assert re.match(r"# .+\n\n\*\*At the end you have\*\* [^*]+\*\*Time:\*\*\s", page.read_text()), page.name


def test_every_concept_shows_a_picture_that_exists():
    for page in (ROOT / "docs" / "concepts").glob("*.md"):
        (picture,) = re.findall(r"^!\[[^]]+\]\(([^)]+\.svg)\)$", page.read_text(), re.MULTILINE)
        assert "prefers-color-scheme: dark" in (page.parent / picture).read_text(), page.name


def test_prose_is_wrapped_at_120_characters():
    written = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference"]
    for path in (ROOT / "README.md", *written):
        prose = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        long = [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")]
        assert not long, f"{path.name}: {long[0]}"


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
