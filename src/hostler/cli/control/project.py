"""``hostler project`` and ``hostler quota``: the owners of VMs and keys, and how much each may use.

Both are named by the project. A quota has no name of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.control.connection import CommandTarget, complete_project, fleet_target_options
from hostler.cli.control.options import as_schema, read_changes, read_pairs
from hostler.cli.control.output import (
    Field,
    age,
    amounts_text,
    labels_text,
    shape_output,
    show_result,
)
from hostler.cli.control.resource_commands import ResourceCommands
from hostler.cli.options import examples
from hostler.cli.output.terminal import note
from hostler.errors import InputError
from hostler.model.resources import format_resource, parse_resource

if TYPE_CHECKING:
    from hostler.control.schemas import Project, Quota

__all__ = ["project", "quota"]

_PROJECT_FIELDS: list[Field[Project]] = [
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
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label; may be repeated.")
@click.option("--max-priority", type=_PRIORITY, default=0, show_default=True, help=_HIGHEST)
@click.option("--strategy", metavar="NAME", default="", help=_STRATEGY)
@fleet_target_options
@shape_output
def create(
    target: CommandTarget,
    name: str,
    description: str,
    labels: tuple[str, ...],
    max_priority: int,
    strategy: str,
    output: str,
) -> None:
    """Create a project. VMs of other projects can refer to its labels in their affinity."""
    from hostler.control.schemas import ProjectCreate

    words: dict[str, Any] = {"name": name, "description": description, "labels": read_pairs("--label", labels)}
    if max_priority:  # an older service does not know the word
        words["max_priority"] = max_priority
    if strategy:
        words["strategy"] = strategy
    with target.open() as client:
        made = client.projects.create(as_schema(ProjectCreate, words))
    show_result(made, output, f"project {made.name}: created")


@project.command(
    epilog=examples(
        "hostler project edit team-a --label tier=silver --label old-",
        "hostler project edit team-a --strategy best_fit",
    ),
    short_help="Change a project.",
)
@click.argument("name", metavar="NAME", shell_complete=complete_project)
@click.option("--description", metavar="TEXT", default=None, help="What it is for.")
@click.option("--label", "labels", metavar="KEY=VALUE|KEY-", multiple=True, help="Set a label, or remove it with KEY-.")
@click.option("--max-priority", type=_PRIORITY, default=None, help=_HIGHEST)
@click.option("--strategy", metavar="NAME", default=None, help=f"{_STRATEGY} '' sets it back to that of the service.")
@fleet_target_options
@shape_output
def edit(
    target: CommandTarget, name: str, description: str | None, labels: tuple[str, ...], max_priority: int | None,
    strategy: str | None, output: str,
) -> None:  # fmt: skip
    """Change a project's description, labels, highest priority and strategy. Existing VMs keep theirs."""
    from hostler.control.client.edits import edit_as_read
    from hostler.control.schemas import ProjectEdit

    given = {"description": description, "max_priority": max_priority, "strategy": strategy}
    words = {name: value for name, value in given.items() if value is not None}
    if not words and not labels:
        raise InputError("nothing to change", hint="give --description, --label, --max-priority or --strategy")

    def changed(found: Project) -> ProjectEdit:
        more = {"labels": read_changes(labels, found.labels)} if labels else {}
        return as_schema(ProjectEdit, {**words, **more})

    with target.open() as client:
        after = edit_as_read(
            lambda: client.projects.get(name),
            lambda found, version: client.projects.edit(changed(found), name, version=version),
        )
    show_result(after, output, f"project {after.name}: changed")


_PROJECTS = ResourceCommands(
    group=project,
    title="project {}",
    calls=lambda client: client.projects,
    fields=_PROJECT_FIELDS,
    nothing="there are no projects",
    complete=complete_project,
)
_PROJECTS.add_list("List the projects.", "List the projects that the key can access.", "hostler project list")
_PROJECTS.add_get("Show one project.", "Show a project.", "hostler project get team-a")
_PROJECTS.add_delete(
    "Delete an empty project.",
    "Delete a project that has no VMs any more, and revoke its keys; on a terminal you are asked first.",
    "hostler project delete team-a",
)


_QUOTA_FIELDS: list[Field[Quota]] = [
    Field("PROJECT", lambda one: one.project),
    Field("GUARANTEED", lambda one: amounts_text(one.min)),
    Field("AT MOST", lambda one: amounts_text(one.max)),
    Field("USED", lambda one: amounts_text(one.used)),
    Field("AGE", lambda one: age(one.created_at), "right", is_wide=True),
]


@click.group(
    epilog=examples("hostler quota set team-a --min cpu=16,memory=64Gi --max cpu=64", "hostler quota list"),
    short_help="Set the guaranteed minimum and the maximum of projects.",
)
def quota() -> None:
    """Set the guaranteed minimum and the maximum of projects. Other projects may borrow unused room."""


@quota.command(
    "set",
    epilog=examples(
        "hostler quota set team-a --max cpu=64,memory=256Gi",
        "hostler quota set team-a --min cpu=16",
        "hostler quota set team-a --max memory-",
    ),
    short_help="Set the quota of a project.",
)
@click.argument("name", metavar="PROJECT", shell_complete=complete_project)
@click.option(
    "--min",
    "least",
    metavar="AMOUNTS",
    multiple=True,
    help="What is guaranteed, such as cpu=16,memory=64Gi; cpu- removes that.",
)
@click.option(
    "--max",
    "most",
    metavar="AMOUNTS",
    multiple=True,
    help="The most it may use, such as cpu=64,guests=20; memory- removes that limit.",
)
@fleet_target_options
@shape_output
def set_(target: CommandTarget, name: str, least: tuple[str, ...], most: tuple[str, ...], output: str) -> None:
    """Set the quota of a project: cpu, memory, storage (disks on hosts) and guests (how many VMs).

    Where it has one, each amount that is named here replaces that one, and the rest stays.
    """
    from hostler.control.client.edits import edit_as_read
    from hostler.control.client.errors import ServerNotFoundError
    from hostler.control.schemas import QuotaCreate, QuotaEdit

    changes = {place: _changes(f"--{place}", words) for place, words in (("min", least), ("max", most)) if words}
    if not changes:
        raise InputError("no amounts are named", hint="give --min or --max, such as --max cpu=64,memory=256Gi")

    def edit(found: Quota, version: str) -> Quota:
        before = {"min": found.min, "max": found.max}
        words = {place: _apply_changes(before[place], change) for place, change in changes.items()}
        return client.quotas.edit(as_schema(QuotaEdit, words), name, version=version)

    with target.open() as client:
        try:
            after = edit_as_read(lambda: client.quotas.get(name), edit)
        except ServerNotFoundError:
            words = {place: _apply_changes({}, change) for place, change in changes.items()}
            after = client.quotas.create(as_schema(QuotaCreate, {"project": name, **words}))
        lines = _out_of_reach(after, list(client.quotas.list()))
    show_result(
        after,
        output,
        f"quota of {after.project}: {amounts_text(after.min)} guaranteed, at most {amounts_text(after.max)}",
    )
    for line in (after.note, *lines):
        if line:
            note(line)


def _out_of_reach(one: Quota, quotas: list[Quota]) -> list[str]:
    """Return a note about a maximum that can never be reached: borrowing is limited to all guaranteed room."""
    lines = []
    for resource, most in sorted(one.max.items()):
        guaranteed = sum(parse_resource(resource, other.min.get(resource, "0")) for other in quotas)
        if 0 < guaranteed < parse_resource(resource, most):
            amount = format_resource(resource, guaranteed)
            lines.append(
                f"{one.project} does not get to {resource} {most}: beyond what it is guaranteed it borrows what others "
                f"leave of theirs, and {resource} {amount} is guaranteed in all. "
                f"'hostler quota set {one.project} --min {resource}={most}' guarantees it"
            )
    return lines


def _changes(option: str, words: tuple[str, ...]) -> dict[str, str | None]:
    """Parse amounts such as ``cpu=8``; ``cpu-`` removes one (None). One word may hold several."""
    parts = [part for word in words for part in word.split(",") if part]
    away = [part for part in parts if len(part) > 1 and part.endswith("-") and "=" not in part]
    given, gone = read_pairs(option, [part for part in parts if part not in away]), {part[:-1] for part in away}
    if both := sorted(gone & set(given)):
        raise InputError(f"{option} names {both[0]!r} twice", hint="set it, or remove it")
    return {**given, **dict.fromkeys(gone)}


def _apply_changes(before: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


@contextmanager
def _of(project: str) -> Iterator[None]:
    """Return a hint that names the project of a missing quota."""
    import msgspec

    from hostler.control.client.errors import ServerNotFoundError

    try:
        yield
    except ServerNotFoundError as error:
        if error.cause is None or error.cause.kind != "quota":
            raise
        problem = msgspec.structs.replace(
            error.problem, detail=f"project {project} has no quota", hint="'hostler quota list' shows what there is"
        )
        raise ServerNotFoundError(problem) from None


_QUOTAS = ResourceCommands(
    group=quota,
    title="quota of {}",
    calls=lambda client: client.quotas,
    fields=_QUOTA_FIELDS,
    nothing="there are no quotas, so nothing is limited: 'hostler quota set PROJECT --max cpu=64' sets one",
    metavar="PROJECT",
    complete=complete_project,
    guard=_of,
)
_QUOTAS.add_list(
    "List the quotas.",
    "List the quotas, with what is used of each.",
    "hostler quota list",
    "hostler quota list -o json",
)
_QUOTAS.add_get(
    "Show the quota of a project.", "Show the quota of a project, and what its VMs use.", "hostler quota get team-a"
)
_QUOTAS.add_delete(
    "Delete the quota of a project.",
    "Delete the quota of a project: it has no guarantee and no limit any more.",
    "hostler quota delete team-a",
)
