"""What the shell completes: policies and workloads here; VMs and hosts from the control plane, or nothing."""

from __future__ import annotations

import time

import click
import pytest
from click.shell_completion import ShellComplete

from hostler.cli.main import cli


def _complete(line: str) -> list[str]:
    """Return what the last word of a line may become."""
    *words, last = line.split(" ")
    return [item.value for item in ShellComplete(cli, {}, "hostler", "_HOSTLER_COMPLETE").get_completions(words, last)]


@pytest.mark.parametrize(
    "command",
    [
        "place --policy",
        "explain --policy",
        "capacity --policy",
        "config show --policy",
        "sim run openb --policy",
        "sim apply --policy",
        "sim compare --policies",
        "sim sweep out --policies",
        "sim scorer run --fall-back",
        "kube plan --policy",
        "kube capacity --policy",
        "kube schedule --policy",
    ],
)
def test_policies_are_completed_in_every_command(command):
    assert _complete(f"{command} f") == ["fgd", "first_fit"]


def test_lists_of_names_are_completed_after_a_comma():
    assert _complete("sim compare --policies fgd,first") == ["fgd,first_fit"]
    assert _complete("sim compare --policies fgd,f") == ["fgd,first_fit"], "a policy is compared once"
    assert _complete("sim compare --workload default,multigpu2") == ["default,multigpu20"]
    assert _complete("sim sweep out --workload gpuspec3") == ["gpuspec33"]


def test_policies_to_compare_with_include_first_and_best():
    assert _complete("sim compare --against f") == ["first", "fgd", "first_fit"]
    assert _complete("sim compare --against be") == ["best", "best_fit"]


@pytest.mark.parametrize("command", ["sim run openb", "sim scorer run", "sim bound"])
def test_workloads_are_completed(command):
    assert _complete(f"{command} --workload gpushare") == ["gpushare40", "gpushare60", "gpushare80", "gpushare100"]


def test_trace_that_comes_with_the_package_is_completed_beside_files():
    for command in ("sim run", "sim compare"):
        items = ShellComplete(cli, {}, "hostler", "_HOSTLER_COMPLETE").get_completions(command.split(), "op")
        assert [(item.type, item.value) for item in items] == [("plain", "openb"), ("file", "op")]


@pytest.mark.parametrize("group", ["vm", "host"])
def test_every_vm_and_host_is_completed(group):
    context = click.Context(cli)
    commands = cli.get_command(context, group)
    assert isinstance(commands, click.Group)
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        for one in command.params:
            is_name = one.human_readable_name.strip("[]…").lower() in ("vm", "host") or one.name in ("vm", "host")
            if is_name and name != "create":
                assert one._custom_shell_complete is not None, f"{group} {name} {one.name}"


def test_without_an_answer_nothing_is_completed_soon(tmp_path):
    key = tmp_path / "key"
    key.write_text("secret\n")
    key.chmod(0o600)
    began = time.monotonic()
    for server in ("http://127.0.0.1:9", "no address"):
        words = ["--server", server, "--key-file", str(key), ""]
        shell = ShellComplete(cli, {}, "hostler", "_HOSTLER_COMPLETE")
        for command in (["vm", "get"], ["host", "drain"]):
            assert shell.get_completions([*command, *words[:-1]], "") == []
    assert time.monotonic() - began < 20  # four tries of a second each at most, and imports
