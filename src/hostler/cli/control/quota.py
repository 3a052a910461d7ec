"""``hostler quota``: what projects are guaranteed, and may have at most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from hostler.cli.control.asking import confirm, read_pairs, yes_option
from hostler.cli.control.connecting import There, complete_project, connects_fleet_wide
from hostler.cli.control.rereading import edit_as_read
from hostler.cli.control.shaping import valid
from hostler.cli.control.showing import Field, age, amounts_text, output, shape_output, show_list, show_one, told
from hostler.cli.options import examples
from hostler.cli.terminal import note, printable, say
from hostler.errors import InputError
from hostler.model.resources import format_resource, parse_resource

if TYPE_CHECKING:
    from hostler.control.api.shapes import Quota

__all__ = ["quota"]

_FIELDS: list[Field[Quota]] = [
    Field("PROJECT", lambda one: one.project),
    Field("GUARANTEED", lambda one: amounts_text(one.min)),
    Field("AT MOST", lambda one: amounts_text(one.max)),
    Field("USED", lambda one: amounts_text(one.used)),
    Field("AGE", lambda one: age(one.created_at), "right", is_wide=True),
]


@click.group(
    epilog=examples("hostler quota set team-a --min cpu=16,memory=64Gi --max cpu=64", "hostler quota list"),
    short_help="Set what projects are guaranteed, and may have at most.",
)
def quota() -> None:
    """Set what projects are guaranteed, and may have at most. Others may borrow what a project leaves."""


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
    help="What is guaranteed, such as cpu=16,memory=64Gi; cpu- takes that away.",
)
@click.option(
    "--max",
    "most",
    metavar="AMOUNTS",
    multiple=True,
    help="What it may have at most, such as cpu=64,guests=20; memory- takes that limit away.",
)
@connects_fleet_wide
@shape_output
def set_(there: There, name: str, least: tuple[str, ...], most: tuple[str, ...], output: str) -> None:
    """Set the quota of a project: cpu, memory, storage (disks on hosts) and guests (how many VMs).

    Where it has one, each amount that is named here replaces that one, and the rest stays.
    """
    from hostler.control.api.shapes import QuotaCreate, QuotaEdit
    from hostler.control.client.errors import UnknownThereError

    changes = {place: _changes(f"--{place}", words) for place, words in (("min", least), ("max", most)) if words}
    if not changes:
        raise InputError("no amounts are named", hint="give --min or --max, such as --max cpu=64,memory=256Gi")

    def edit(found: Quota, version: str) -> Quota:
        before = {"min": found.min, "max": found.max}
        words = {place: _changed(before[place], change) for place, change in changes.items()}
        return client.quotas.edit(valid(QuotaEdit, words), name, version=version)

    with there.open() as client:
        try:
            after = edit_as_read(lambda: client.quotas.get(name), edit)
        except UnknownThereError:
            words = {place: _changed({}, change) for place, change in changes.items()}
            after = client.quotas.create(valid(QuotaCreate, {"project": name, **words}))
        lines = _out_of_reach(after, list(client.quotas.list()))
    told(
        after,
        output,
        f"quota of {after.project}: {amounts_text(after.min)} guaranteed, at most {amounts_text(after.max)}",
    )
    for line in lines:
        note(line)


def _out_of_reach(one: Quota, quotas: list[Quota]) -> list[str]:
    """Say which maximum can never be reached: whoever borrows does so from what projects are guaranteed in all."""
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
    """Read amounts such as ``cpu=8``; ``cpu-`` takes one away (None). One word may hold several."""
    parts = [part for word in words for part in word.split(",") if part]
    away = [part for part in parts if len(part) > 1 and part.endswith("-") and "=" not in part]
    given, gone = read_pairs(option, [part for part in parts if part not in away]), {part[:-1] for part in away}
    if both := sorted(gone & set(given)):
        raise InputError(f"{option} names {both[0]!r} twice", hint="set it, or take it away")
    return {**given, **dict.fromkeys(gone)}


def _changed(before: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


@quota.command(
    "list", epilog=examples("hostler quota list", "hostler quota list -o json"), short_help="List the quotas."
)
@connects_fleet_wide
@output
def list_(there: There, output: str) -> None:
    """List the quotas, with what is used of each."""
    with there.open() as client:
        nothing = "there are no quotas, so nothing is limited: 'hostler quota set PROJECT --max cpu=64' sets one"
        show_list(client.quotas.list(), _FIELDS, output, nothing=nothing)


@quota.command(epilog=examples("hostler quota get team-a"), short_help="Show the quota of a project.")
@click.argument("name", metavar="PROJECT", shell_complete=complete_project)
@connects_fleet_wide
@output
def get(there: There, name: str, output: str) -> None:
    """Show the quota of a project, and what its VMs use."""
    with there.open() as client, _of(name):
        show_one(client.quotas.get(name), _FIELDS, output)


@quota.command(epilog=examples("hostler quota delete team-a"), short_help="Delete the quota of a project.")
@click.argument("name", metavar="PROJECT", shell_complete=complete_project)
@yes_option()
@connects_fleet_wide
def delete(there: There, name: str, yes: bool) -> None:
    """Delete the quota of a project: nothing is guaranteed to it any more, and it may have anything."""
    confirm(f"Delete the quota of {name}?", is_sure=yes)
    with there.open() as client, _of(name):
        client.quotas.delete(name)
    say(printable(f"quota of {name}: deleted"))


@contextmanager
def _of(project: str) -> Iterator[None]:
    """Say of a quota that is not there whose it would be: it has no name of its own."""
    import msgspec

    from hostler.control.client.errors import UnknownThereError

    try:
        yield
    except UnknownThereError as error:
        if not error.message.startswith("quota "):
            raise
        problem = msgspec.structs.replace(
            error.problem, detail=f"project {project} has no quota", hint="'hostler quota list' shows what there is"
        )
        raise UnknownThereError(problem) from None
