"""``hostler reservation``: room that hosts keep for a project or a gang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hostler.cli.control.asking import confirm, read_amounts, read_pairs, yes_option
from hostler.cli.control.connecting import There, connects
from hostler.cli.control.hints import none_yet
from hostler.cli.control.listing import listed
from hostler.cli.control.shaping import valid
from hostler.cli.control.showing import (
    Field,
    age,
    amounts_text,
    labels_text,
    output,
    shape_output,
    show_list,
    show_one,
    told,
)
from hostler.cli.options import examples
from hostler.cli.terminal import note, printable, say
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.api.shapes import Reservation
    from hostler.control.client import Client

__all__ = ["reservation"]

_MAKE = "'hostler reservation create NAME --amounts cpu=4,memory=16Gi' makes one"


def _hosts(one: Reservation) -> str:
    if one.hosts:
        return "by terms"
    return labels_text(one.host_selector) if one.host_selector else "all"


_FIELDS: list[Field[Reservation]] = [
    Field("PROJECT", lambda one: one.project),
    Field("NAME", lambda one: one.name),
    Field("AMOUNTS", lambda one: amounts_text(one.amounts)),
    Field("HOSTS", lambda one: _hosts(one)),
    Field("GANG", lambda one: one.gang),
    Field("SINCE", lambda one: one.since),
    Field("UNTIL", lambda one: one.until),
    Field("AGE", lambda one: age(one.created_at), "right", is_wide=True),
]  # fmt: skip


@click.group(
    epilog=examples("hostler reservation create night --amounts cpu=4,memory=16Gi --selector rack=r1"),
    short_help="Keep room on hosts for a project or a gang.",
)
def reservation() -> None:
    """Keep room on hosts for a project or a gang. A reservation is named by NAME or PROJECT/NAME."""


@reservation.command(
    epilog=examples(
        "hostler reservation create night --amounts cpu=4,memory=16Gi --until 2030-01-31T06:00:00Z",
        "hostler reservation create crew -p team-a --amounts cpu=8 --gang crew --selector rack=r1",
    ),
    short_help="Keep room on hosts.",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--amounts", metavar="AMOUNTS", multiple=True, required=True, help="What each host keeps: cpu=4,memory=16Gi."
)
@click.option("--gang", metavar="NAME", default="", help="Only for this gang of the project.")
@click.option(
    "--selector", "selectors", metavar="KEY=VALUE", multiple=True, help="A label of the hosts; else all hosts."
)
@click.option("--since", metavar="TIME", default="", help="When it begins, such as 2030-01-31T06:00:00Z; else now.")
@click.option("--until", metavar="TIME", default="", help="When it ends; else never.")
@connects
@shape_output
def create(
    there: There, name: str, amounts: tuple[str, ...], gang: str, selectors: tuple[str, ...], since: str, until: str,
    output: str,
) -> None:  # fmt: skip
    """Keep amounts on every matching host for the VMs of a project, or for one gang of it."""
    from hostler.control.api.shapes import ReservationCreate

    with there.open() as client:
        project, word = client.named(name)
        words = {
            "name": word, "project": project, "amounts": read_amounts("--amounts", amounts), "gang": gang,
            "host_selector": read_pairs("--selector", selectors), "since": since, "until": until,
        }  # fmt: skip
        made = client.reservations.create(valid(ReservationCreate, words))
        _note_gang(client, made)
    _tell(made, output)


@reservation.command("list", epilog=examples("hostler reservation list -A"), short_help="List the reservations.")
@click.option("-A", "--all-projects", is_flag=True, help="Of all projects that the key opens.")
@connects
@output
def list_(there: There, all_projects: bool, output: str) -> None:
    """List the reservations of a project."""
    with there.open() as client:
        project = "" if all_projects else client.reach.project
        found = listed(client, project, client.reservations.list(project=project))
        show_list(found, _FIELDS, output, nothing=none_yet(project, "reservations", _MAKE))


@reservation.command(epilog=examples("hostler reservation get night"), short_help="Show one reservation.")
@click.argument("name", metavar="NAME")
@connects
@output
def get(there: There, name: str, output: str) -> None:
    """Show a reservation."""
    with there.open() as client:
        show_one(client.reservations.get(*client.named(name)), [*_FIELDS, Field("NOW", lambda one: one.note)], output)


@reservation.command(
    epilog=examples("hostler reservation edit night --amounts cpu=8 --until 2030-02-01T06:00:00Z"),
    short_help="Change a reservation.",
)
@click.argument("name", metavar="NAME")
@click.option("--amounts", metavar="AMOUNTS", multiple=True, help="What each host keeps, instead of what it was.")
@click.option("--gang", metavar="NAME", default=None, help="Only for this gang; '' for the whole project.")
@click.option("--selector", "selectors", metavar="KEY=VALUE", multiple=True, help="A label of the hosts.")
@click.option("--since", metavar="TIME", default=None, help="When it begins; '' for now.")
@click.option("--until", metavar="TIME", default=None, help="When it ends; '' for never.")
@connects
@shape_output
def edit(
    there: There, name: str, amounts: tuple[str, ...], gang: str | None, selectors: tuple[str, ...],
    since: str | None, until: str | None, output: str,
) -> None:  # fmt: skip
    """Change a reservation; what is not named stays."""
    from hostler.control.api.shapes import ReservationEdit

    words: dict[str, Any] = {"gang": gang, "since": since, "until": until}
    words = {key: value for key, value in words.items() if value is not None}
    if amounts:
        words["amounts"] = read_amounts("--amounts", amounts)
    if selectors:
        words["host_selector"] = read_pairs("--selector", selectors)
    if not words:
        raise InputError("nothing is to be changed", hint="give --amounts, --until or another option")
    with there.open() as client:
        after = client.reservations.edit(valid(ReservationEdit, words), *client.named(name))
        _note_gang(client, after)
    _tell(after, output)


def _note_gang(client: Client, one: Reservation) -> None:
    """Say that the gang is not there yet: it may come later, and whoever mistyped its name keeps room for nobody."""
    from hostler.control.client.errors import NotAllowedError, UnknownThereError

    if not one.gang:
        return
    try:
        client.gangs.get(one.project, one.gang)
    except UnknownThereError:
        gang = f"{one.project}/{one.gang}"
        note(f"gang {gang} does not exist yet, so nobody may use that room: 'hostler gang create' makes it")
    except NotAllowedError:
        return  # this key may keep room and read no gangs


def _tell(one: Reservation, form: str) -> None:
    """Say what is kept, and beside the answer what that does."""
    told(one, form, f"reservation {one.project}/{one.name}: {amounts_text(one.amounts)} on each host")
    if form == "table" and one.note:
        note(one.note)


@reservation.command(epilog=examples("hostler reservation delete night"), short_help="Give the room back.")
@click.argument("name", metavar="NAME")
@yes_option()
@connects
def delete(there: There, name: str, yes: bool) -> None:
    """Delete a reservation: anybody may have the room."""
    confirm(f"Delete the reservation {name}?", is_sure=yes)
    with there.open() as client:
        project, word = client.named(name)
        client.reservations.delete(project, word)
    say(printable(f"reservation {project}/{word}: deleted"))
