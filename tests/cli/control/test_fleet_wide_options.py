"""A project is offered where it says something, and nowhere else."""

from __future__ import annotations

import click
import pytest

from hostler.cli.main import cli
from tests.cli.cli_in_process import hostler

FLEET_WIDE = ("host", "token", "key", "project", "quota")


def commands(*words: str) -> list[tuple[str, click.Command]]:
    """Return the commands of a group with their names."""
    context = click.Context(cli)
    found: click.Command | None = cli
    for word in words:
        assert isinstance(found, click.Group)
        found = found.get_command(context, word)
    assert isinstance(found, click.Group)
    return [(name, one) for name in found.list_commands(context) if (one := found.get_command(context, name))]


def offers_project(command: click.Command) -> bool:
    return any("-p" in parameter.opts for parameter in command.params)


@pytest.mark.parametrize("group", FLEET_WIDE)
def test_what_belongs_to_no_project_takes_none(group):
    assert [name for name, command in commands(group) if offers_project(command)] == []
    assert all("--server" in [word for one in command.params for word in one.opts] for _, command in commands(group))


@pytest.mark.parametrize("group", ["vm", "gang", "reservation"])
def test_what_belongs_to_a_project_takes_one(group):
    assert [name for name, command in commands(group) if not offers_project(command)] == []


def test_an_operation_is_named_by_its_id_and_listed_by_project():
    assert [name for name, command in commands("operation") if offers_project(command)] == ["list"]


def test_fleet_wide_commands_reject_the_project_option():
    result = hostler("key", "create", "ci", "--role", "viewer", "--project", "team-a")
    assert (result.code, result.error) == (2, "no such option '--project'")
    assert "--in-project" in result.hint
