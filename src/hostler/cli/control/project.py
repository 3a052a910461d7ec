"""``hostler project``: what VMs, keys and quotas belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hostler.cli.control.asking import confirm, read_changes, read_pairs, yes_option
from hostler.cli.control.connecting import There, complete_project, connects_fleet_wide
from hostler.cli.control.rereading import edit_as_read
from hostler.cli.control.shaping import valid
from hostler.cli.control.showing import Field, age, labels_text, output, shape_output, show_list, show_one, told
from hostler.cli.options import examples
from hostler.cli.terminal import printable, say
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.api.shapes import Project

__all__ = ["project"]

_FIELDS: list[Field[Project]] = [
    Field("NAME", lambda one: one.name),
    Field("VMS", lambda one: one.vms, "right"),
    Field("DESCRIPTION", lambda one: one.description),
    Field("LABELS", lambda one: labels_text(one.labels)),
    Field("MAX-PRIORITY", lambda one: str(one.max_priority), "right"),
    Field("STRATEGY", lambda one: one.strategy, is_wide=True),
    Field("AGE", lambda one: age(one.created_at), "right"),
]

_PRIORITY = click.IntRange(0, 2**31 - 1)
_HIGHEST = "The highest priority that its VMs and gangs may have; only an administrator of all projects sets it."
_STRATEGY = "The strategy of its VMs that name none."


@click.group(
    epilog=examples("hostler project create team-a --description 'the A team'", "hostler project list"),
    short_help="Create, list and delete projects.",
)
def project() -> None:
    """Create, list, edit and delete the projects of a control plane."""


@project.command(epilog=examples("hostler project create team-a --label tier=gold"), short_help="Create a project.")
@click.argument("name", metavar="NAME")
@click.option("--description", metavar="TEXT", default="", help="What it is for.")
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label; as often as wanted.")
@click.option("--max-priority", type=_PRIORITY, default=0, show_default=True, help=_HIGHEST)
@click.option("--strategy", metavar="NAME", default="", help=_STRATEGY)
@connects_fleet_wide
@shape_output
def create(
    there: There, name: str, description: str, labels: tuple[str, ...], max_priority: int, strategy: str, output: str
) -> None:
    """Create a project. Its labels can be named in the affinity of VMs of other projects."""
    from hostler.control.api.shapes import ProjectCreate

    words: dict[str, Any] = {"name": name, "description": description, "labels": read_pairs("--label", labels)}
    if max_priority:  # an older service does not know the word
        words["max_priority"] = max_priority
    if strategy:
        words["strategy"] = strategy
    with there.open() as client:
        made = client.projects.create(valid(ProjectCreate, words))
    told(made, output, f"project {made.name}: created")


@project.command("list", epilog=examples("hostler project list"), short_help="List the projects.")
@connects_fleet_wide
@output
def list_(there: There, output: str) -> None:
    """List the projects that the key opens."""
    with there.open() as client:
        show_list(client.projects.list(), _FIELDS, output, nothing="there are no projects")


@project.command(epilog=examples("hostler project get team-a"), short_help="Show one project.")
@click.argument("name", metavar="NAME", shell_complete=complete_project)
@connects_fleet_wide
@output
def get(there: There, name: str, output: str) -> None:
    """Show a project."""
    with there.open() as client:
        show_one(client.projects.get(name), _FIELDS, output)


@project.command(
    epilog=examples(
        "hostler project edit team-a --label tier=silver --label old-",
        "hostler project edit team-a --strategy best_fit",
    ),
    short_help="Change a project.",
)
@click.argument("name", metavar="NAME", shell_complete=complete_project)
@click.option("--description", metavar="TEXT", default=None, help="What it is for.")
@click.option("--label", "labels", metavar="KEY=VALUE|KEY-", multiple=True, help="Set a label, or take it away.")
@click.option("--max-priority", type=_PRIORITY, default=None, help=_HIGHEST)
@click.option("--strategy", metavar="NAME", default=None, help=f"{_STRATEGY} '' sets it back to that of the service.")
@connects_fleet_wide
@shape_output
def edit(
    there: There, name: str, description: str | None, labels: tuple[str, ...], max_priority: int | None,
    strategy: str | None, output: str,
) -> None:  # fmt: skip
    """Change a project's description, labels, highest priority and strategy. VMs that exist keep what they have."""
    from hostler.control.api.shapes import ProjectEdit

    given = {"description": description, "max_priority": max_priority, "strategy": strategy}
    words = {name: value for name, value in given.items() if value is not None}
    if not words and not labels:
        raise InputError("nothing is to be changed", hint="give --description, --label, --max-priority or --strategy")

    def changed(found: Project) -> ProjectEdit:
        more = {"labels": read_changes(labels, found.labels)} if labels else {}
        return valid(ProjectEdit, {**words, **more})

    with there.open() as client:
        after = edit_as_read(
            lambda: client.projects.get(name),
            lambda found, version: client.projects.edit(changed(found), name, version=version),
        )
    told(after, output, f"project {after.name}: changed")


@project.command(epilog=examples("hostler project delete team-a"), short_help="Delete an empty project.")
@click.argument("name", metavar="NAME", shell_complete=complete_project)
@yes_option()
@connects_fleet_wide
def delete(there: There, name: str, yes: bool) -> None:
    """Delete a project that has no VMs any more, and revoke its keys; on a terminal you are asked first."""
    confirm(f"Delete the project {name}?", is_sure=yes)
    with there.open() as client:
        client.projects.delete(name)
    say(printable(f"project {name}: deleted"))
