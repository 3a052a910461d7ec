"""Every command that README, the quickstart and some guides print can be typed as it stands, and prints what they show.

``tests.docs.page_commands`` says how pages write commands. Commands of ``make`` are only looked up in the Makefile:
running them here would run these tests again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_commands import Shell, steps_of
from tests.docs.page_output import Page

pytestmark = pytest.mark.shown_output

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/quickstart.md", "docs/guides/scenarios.md")

# A reader has nothing of this yet: what fetches, sets up or enters the repository.
_NOT_RUN = re.compile(r"(git clone|cd|source|pip install|python3? -m venv|kubectl)\b")
_MAKE = re.compile(r"make(?P<targets>(\s+[a-z][a-z-]*)*)\s*(#.*)?")


def _page(name: str) -> str:
    path = ROOT / name
    return path.read_text() if path.is_file() else ""


def _commands(name: str) -> list[str]:
    return [step.command for step in steps_of(_page(name))]


def _environment() -> dict[str, str]:
    """Return the environment of a reader: without settings of the person who runs the tests, and with the command."""
    others = {key: value for key, value in os.environ.items() if not key.startswith("HOSTLER_")}
    return others | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize("name", PAGES)
def test_every_target_of_make_exists(name):
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in _commands(name):
        if match := _MAKE.fullmatch(command):
            assert set(match["targets"].split()) <= targets, command


@pytest.mark.parametrize("name", PAGES)
def test_every_command_prints_what_the_page_shows(name, tmp_path):
    shutil.copytree(ROOT / "demo", tmp_path / "demo", ignore=shutil.ignore_patterns("out"))
    for part in ("data", "docs", "README.md"):
        (tmp_path / part).symlink_to(ROOT / part)
    page = Page(name)
    with Shell(tmp_path, sys.executable, XDG_CONFIG_HOME=str(tmp_path / ".config")) as shell:
        for step in page.steps:
            if _MAKE.fullmatch(step.command) or _NOT_RUN.match(step.command):
                continue
            code, lines = shell.type(step.command)
            page.compare(step, code, "\n".join(lines))
    page.finish()


def _blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", _page(name), re.DOTALL | re.MULTILINE)


def _run(command: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300, env=_environment(),
    )  # fmt: skip
    return done.stdout


def test_the_python_of_readme_runs(capsys):
    (code,) = _blocks("README.md", "python")
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "web goes to a\n"


def test_the_quickstart_shows_what_strict_budgets_change():
    strict = next(command for command in _commands("docs/quickstart.md") if "--budgets strict" in command)
    plain = strict.replace(" --budgets strict", "")
    assert ("report-1" in _run(plain), "report-1" in _run(strict)) == (True, False)


def test_every_page_reads_a_cluster_in_the_same_way():
    pages = ("README.md", "docs/quickstart.md", "docs/guides/manifests.md", "demo/run")
    lines = [re.findall(r"^ *(kubectl get .*)$", _page(name), re.MULTILINE) for name in pages]
    assert [len(found) for found in lines] == [1] * len(pages)
    assert len({line for found in lines for line in found}) == 1


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_page_and_a_heading():
    for path in (ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^):]+)\)", path.read_text()):
            name, _, anchor = target.partition("#")
            page = path.parent / name if name else path
            assert page.exists(), f"{path.name}: {target}"
            assert not anchor or anchor in _anchors(page), f"{path.name}: {target}"


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
