"""What there is: help texts, policies, plugins, completion and versions."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import hostler as package
from hostler.cli.main import COMMANDS, cli
from hostler.engine import BUILT_IN
from tests.cli.cli_in_process import hostler


def _all_commands() -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}

    def walk(command: click.Command, path: str) -> None:
        found[path] = command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                walk(inner, f"{path} {name}")

    walk(cli, "hostler")
    return found


ALL_COMMANDS = _all_commands()


@pytest.mark.parametrize("path", ALL_COMMANDS)
def test_every_command_has_help_with_examples_that_name_it(path):
    result = hostler(*path.split()[1:], "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: {path} ")
    examples = result.out.split("Example", 1)[1]
    assert f"{path} " in examples or f"{path}\n" in examples or f"{path})" in examples


@pytest.mark.parametrize("path", ALL_COMMANDS)
def test_every_option_has_a_help_text(path):
    for parameter in ALL_COMMANDS[path].params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_in_the_table_is_the_commands_own(name):
    module, variable, summary = COMMANDS[name]
    assert getattr(import_module(module), variable).short_help == summary


def test_policies_are_listed_with_their_summaries():
    result = hostler("policies")
    assert result.code == 0
    for policy in BUILT_IN.values():
        assert any(line.split()[0] == policy.name and line.endswith(policy.summary) for line in result.lines)
    assert result.row("spread")[1] == "(default)"


def test_policies_of_the_configuration_are_listed_too(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("apiVersion: hostler/v1\nkind: Config\npolicies: [{name: mine, extends: pack, summary: ours}]\n")
    assert hostler("policies", "--config", path).row("mine") == ["mine", "ours"]


def test_policies_as_json_can_be_copied_into_a_configuration():
    data = hostler("policies", "-o", "json").json
    assert data["default"] == "spread"
    assert [policy["name"] for policy in data["policies"]] == list(BUILT_IN)
    assert data["policies"][0]["scorers"][0] == {"name": "least_allocated", "weight": 1}


def test_plugins_are_listed_with_what_they_do():
    result = hostler("plugins")
    assert result.row("taints")[1:4] == ["filter", "built", "in"]
    assert result.row("balanced")[1:4] == ["scorer", "built", "in"]
    for plugin in hostler("plugins", "-o", "json").json:
        assert plugin["summary"], plugin["name"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell):
    result = hostler("completion", shell)
    assert result.code == 0
    assert f"_HOSTLER_COMPLETE={shell}_complete" in result.out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hostler pl", ["plain,place", "plain,plugins"]),
        ("hostler journal r", ["plain,record", "plain,redact", "plain,replay"]),
        ("hostler place --policy fg", ["plain,fgd"]),
        ("hostler place -f x", ["file,x"]),
        ("hostler place -o j", ["plain,json"]),
    ],
)
def test_the_script_completes_commands_options_and_values(line, expected):
    words = line.split(" ")
    environment = {
        **os.environ,
        "_HOSTLER_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    answer = subprocess.run(
        [f"{Path(sys.executable).parent}/hostler"], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == expected


def test_version_names_what_it_runs_on():
    data = hostler("version", "-o", "json").json
    assert data["hostler"] == package.__version__
    assert list(data) == ["hostler", "python", "numpy", "numba"]
    assert hostler("version").lines[0] == f"hostler {package.__version__}"
    assert hostler("--version").lines == [f"hostler {package.__version__}"]
