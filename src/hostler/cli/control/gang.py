"""``hostler gang``: VMs that are placed together or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hostler.cli.control.connection import CommandTarget, complete_from_server, target_options
from hostler.cli.control.options import as_schema
from hostler.cli.control.output import Field, age, shape_output, show_result
from hostler.cli.control.resource_commands import ResourceCommands
from hostler.cli.options import examples
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.schemas import Gang

__all__ = ["gang"]

_complete = complete_from_server(
    lambda client, incomplete: [one.name for one in client.gangs.list(project=client.target.project)]
)

_EVICTED = {"single": "one by one", "all": "all together"}
_FIELDS: list[Field[Gang]] = [
    Field("PROJECT", lambda one: one.project),
    Field("NAME", lambda one: one.name),
    Field("PLACED", lambda one: f"{one.placed} of {one.members}", "right"),
    Field("AT LEAST", lambda one: one.min_count, "right"),
    Field("AT MOST", lambda one: one.max_count or "any", "right"),
    Field("TOPOLOGY", lambda one: one.topology),
    Field("AGE", lambda one: age(one.created_at), "right"),
    Field("PRIORITY", lambda one: one.priority, "right", is_wide=True),
    Field("EVICTED", lambda one: _EVICTED.get(one.disruption, one.disruption), is_wide=True),
    Field("WHEN BROKEN", lambda one: one.when_broken, is_wide=True),
    Field("HEAD OF LINE", lambda one: one.head_of_line, is_wide=True),
    Field("WHY", lambda one: one.why, is_wide=True),
]

_DETAILS: list[Field[Gang]] = [
    Field("Name", lambda one: f"{one.project}/{one.name}"),
    Field("Placed", lambda one: f"{one.placed} of {one.members}"),
    Field("Why", lambda one: one.why),
    Field("At least", lambda one: one.min_count),
    Field("At most", lambda one: one.max_count or "any"),
    Field("Topology", lambda one: one.topology),
    Field("Priority", lambda one: one.priority),
    Field("Evicted", lambda one: _EVICTED.get(one.disruption, one.disruption)),
    Field("When broken", lambda one: one.when_broken),
    Field("Head of line", lambda one: one.head_of_line),
    Field("Created", lambda one: f"{one.created_at} ({age(one.created_at)})"),
]


@click.group(
    epilog=examples(
        "hostler gang create crew --min-count 16 --topology rack",
        "hostler vm create worker --count 16 --cpu 4 --memory 8Gi --gang crew",
        "hostler gang get crew",
    ),
    short_help="Place VMs together or not at all.",
)
def gang() -> None:
    """Manage gangs: VMs that are placed together or not at all. Named by NAME or PROJECT/NAME; VMs join with --gang."""


def _options(command: Any) -> Any:  # noqa: ANN401 - a command, as click has it
    for option in reversed(
        (
            click.option("--min-count", metavar="N", type=click.IntRange(1), default=None, help="How many must fit."),
            click.option("--max-count", metavar="N", type=click.IntRange(0), default=None, help="How many at most."),
            click.option("--priority", metavar="N", type=int, default=None, help="Else the lowest of its members."),
            click.option("--topology", metavar="LABEL", default=None, help="All go where hosts have one value of it."),
            click.option(
                "--disruption",
                type=click.Choice(["single", "all"]),
                default=None,
                help="Who is evicted when others need the room: members one by one, or all together.",
            ),
            click.option(
                "--when-broken",
                type=click.Choice(["keep", "prefer_repair", "release_after"]),
                default=None,
                help="What happens when too few are left.",
            ),
            click.option("--release-after", metavar="DURATION", default=None, help="How long a broken gang is kept."),
            click.option(
                "--head-of-line",
                type=click.Choice(["skip", "reserve"]),
                default=None,
                help="Whether it lets others pass while it finds no room.",
            ),
        )
    ):  # fmt: skip
        command = option(command)
    return command


@gang.command(
    epilog=examples(
        "hostler gang create crew --min-count 16", "hostler gang create team-a/mpi --min-count 4 --topology rack"
    ),
    short_help="Create a gang.",
)
@click.argument("name", metavar="NAME")
@_options
@target_options
@shape_output
def create(target: CommandTarget, name: str, output: str, **options: Any) -> None:  # noqa: ANN401 - those of _options
    """Create a gang. Its members wait until at least --min-count of them can be placed."""
    from hostler.control.schemas import GangCreate

    given = {key: value for key, value in options.items() if value is not None}
    with target.open() as client:
        project, word = client.split_name(name)
        made = client.gangs.create(as_schema(GangCreate, {"name": word, "project": project, **given}))
    show_result(made, output, f"gang {made.project}/{made.name}: created")


@gang.command(epilog=examples("hostler gang edit crew --min-count 12"), short_help="Change a gang.")
@click.argument("name", metavar="NAME", shell_complete=_complete)
@_options
@target_options
@shape_output
def edit(target: CommandTarget, name: str, output: str, **options: Any) -> None:  # noqa: ANN401 - those of _options
    """Change a gang; options that are not given stay."""
    from hostler.control.schemas import GangEdit

    given = {key: value for key, value in options.items() if value is not None}
    if not given:
        raise InputError("nothing to change", hint="give --min-count or another option")
    with target.open() as client:
        after = client.gangs.edit(as_schema(GangEdit, given), *client.split_name(name))
    show_result(after, output, f"gang {after.project}/{after.name}: changed")


_NOUN = ResourceCommands(
    group=gang,
    title="gang {}",
    calls=lambda client: client.gangs,
    fields=_FIELDS,
    details=_DETAILS,
    plural="gangs",
    nothing="'hostler gang create NAME --min-count 2' makes one",
    complete=_complete,
    is_in_project=True,
)
_NOUN.add_list(
    "List the gangs.",
    "List the gangs of a project, with how many members each has and how many are placed.",
    "hostler gang list -A",
)
_NOUN.add_get("Show one gang.", "Show a gang.", "hostler gang get crew")
_NOUN.add_delete(
    "Delete a gang; its VMs stay.", "Delete a gang; on a terminal you are asked first.", "hostler gang delete crew"
)
