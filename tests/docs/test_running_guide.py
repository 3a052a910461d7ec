"""The guide to running the control plane: its commands run, its units and options exist, its metrics are all of them.

Blocks marked ``console`` are one session on SQLite; those under a heading that names PostgreSQL are another one, on a
server of the tests. Commands of all other blocks, and of the units, are read by the command line and not run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from configparser import RawConfigParser
from contextlib import suppress
from pathlib import Path

import click
import pytest

from hostler.cli.main import cli
from tests.control.postgres import PostgresServer, postgres
from tests.docs.page_commands import Step
from tests.docs.page_output import AGES, IDS, SIZES, TIMES, Page
from tests.docs.shell import type_steps

pytestmark = pytest.mark.early

__all__ = ["postgres"]  # a fixture

ROOT = Path(__file__).resolve().parents[2]
NAME = "docs/guides/running.md"
GUIDE = (ROOT / NAME).read_text()
VOLATILE = (AGES, IDS, SIZES, TIMES)
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
PROGRAM = "/opt/hostler/bin/hostler"
PROGRAMS = ("curl", "openssl")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def session_of(page: Page, *, of_postgres: bool) -> list[Step]:
    """Return the steps of a session, in order: those on PostgreSQL stand below headings that name it."""
    lines = page.text.splitlines()

    def is_of_postgres(step: Step) -> bool:
        heading = next(line for line in reversed(lines[: step.first]) if re.match(r"#{2,3} ", line))
        return "PostgreSQL" in heading

    return [step for step in page.steps if is_of_postgres(step) == of_postgres]


def read_by_the_command_line(words: list[str]) -> None:
    """Let the command line read a command, without carrying it out."""
    command: click.Command = cli
    context = click.Context(cli, info_name="hostler", **cli.context_settings)  # click keeps the help option it makes
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    command.make_context(command.name, list(words), parent=context.parent)


def settings_of(name: str) -> dict[str, str]:
    """Return the variables that the guide puts into a file of settings."""
    (found,) = [block for block in blocks(GUIDE, "ini") if f"/{name}" in block.splitlines()[0]]
    return dict(line.split("=", 1) for line in found.splitlines()[1:])


def read_unit(path: Path) -> RawConfigParser:
    unit = RawConfigParser(strict=False, comment_prefixes=("#",), delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(path.read_text())
    return unit


@pytest.mark.shown_output
def test_session_on_sqlite_prints_what_the_guide_shows(tmp_path: Path) -> None:
    page = Page(NAME, VOLATILE)
    printed = type_steps(page, session_of(page, of_postgres=False), tmp_path, programs=PROGRAMS)
    page.finish(session_of(page, of_postgres=False))
    assert "backed up" in printed
    assert "restored" in printed
    kinds = dict(re.findall(r"^# TYPE (hostler_control_\w+) (\w+)$", (tmp_path / "metrics.txt").read_text(), re.M))
    told = set(re.findall(r"^\| `(hostler_control_\w+)` \|", GUIDE, re.MULTILINE))
    assert {name for name in kinds if not name.endswith("_created")} == told
    asked = set(re.findall(r"^\| `[^`]*?(hostler_control_\w+)[^`]*` \| \d+m \|", GUIDE, re.MULTILINE))
    assert asked
    assert asked <= told


@pytest.mark.shown_output
def test_two_replicas_on_postgresql_print_what_the_guide_shows(tmp_path: Path, postgres: PostgresServer) -> None:
    name = postgres.new_database()
    page = Page(NAME, VOLATILE)
    steps = session_of(page, of_postgres=True)
    try:
        printed = type_steps(
            page, steps, tmp_path, programs=(*PROGRAMS, "pg_dump"), HOSTLER_DATABASE_URL=postgres.address(name)
        )
        page.finish(steps)
    finally:
        postgres.drop_database(name)
    assert "team-a" in printed
    assert "log_head" in (tmp_path / "contents.txt").read_text()


def test_commands_that_are_not_run_are_ones_of_hostler() -> None:
    lines = [line for block in blocks(GUIDE, "sh") for line in block.splitlines()]
    found = [line.removeprefix("hostler ") for line in lines if line.startswith("hostler ")]
    inline = re.findall(r"`hostler ([^`]+)`", re.sub(r"^```.*?^```$", "", GUIDE, flags=re.DOTALL | re.MULTILINE))
    assert found
    assert len(inline) > 10
    for text in (*found, *inline):
        with suppress(click.MissingParameter):  # text may name a command without its arguments
            read_by_the_command_line(shlex.split(text, comments=True))


def test_every_long_option_in_the_text_is_one_of_hostler() -> None:
    known = {name for command in _all_commands(cli) for param in command.params for name in param.opts}
    told = set(re.findall(r"`(--[a-z-]+)(?: [^`]*)?`", GUIDE))
    assert told
    assert told <= known


def _all_commands(group: click.Group) -> list[click.Command]:
    context = click.Context(group)
    found: list[click.Command] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += _all_commands(command) if isinstance(command, click.Group) else [command]
    return found


def test_there_is_a_unit_for_service_agent_and_watchdog() -> None:
    assert [path.stem for path in UNITS] == ["hostler-agent", "hostler-serve", "hostler-watchdog"]
    assert all(f"{path.name}" in GUIDE for path in UNITS)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_start_commands_that_exist(path: Path, tmp_path: Path) -> None:
    settings = settings_of("serve.env") | settings_of("agent.env")
    line = read_unit(path)["Service"]["ExecStart"]
    line = re.sub(r"\$(\w+)", lambda found: settings[found[1]], line)
    words = shlex.split(line.replace("/srv/images", str(tmp_path)))
    assert words[0] == PROGRAM
    read_by_the_command_line(words[1:])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_takes_the_units(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copies = [tmp_path / one.name for one in UNITS]  # all of them: they name each other
    for one, copy in zip(UNITS, copies, strict=True):
        copy.write_text(one.read_text().replace(PROGRAM, "/bin/true"))  # it looks for the program too
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / path.name)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_stopping_an_agent_leaves_its_vms_alone() -> None:
    agent = read_unit(ROOT / "deploy" / "systemd" / "hostler-agent.service")["Service"]
    assert (agent["KillMode"], agent["OOMPolicy"]) == ("process", "continue")


@pytest.mark.parametrize(("status", "code"), [("Chassis Power is off", 0), ("Chassis Power is on", 1)])
def test_the_fencing_command_is_proof_only_when_the_machine_is_off(tmp_path: Path, status: str, code: int) -> None:
    (script,) = blocks(GUIDE, "bash")
    for name, text in {"ipmitool": f"#!/bin/sh\necho '{status}'\n", "sleep": "#!/bin/sh\n", "fence": script}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [tmp_path / "fence"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOSTLER_HOST": "node-1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == code


def test_every_link_leads_to_a_page_and_a_heading() -> None:
    for target in re.findall(r"\]\(([^):]+)\)", GUIDE):
        name, _, anchor = target.partition("#")
        text = (ROOT / "docs" / "guides" / (name or "running.md")).read_text()
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert not anchor or anchor in {heading.lower().replace(" ", "-").replace(",", "") for heading in headings}
