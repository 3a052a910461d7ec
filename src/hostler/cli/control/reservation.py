"""``hostler reservation``: room that hosts keep for a project or a gang."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.control.connection import CommandTarget, target_options
from hostler.cli.control.options import as_schema, confirm, read_amounts, read_pairs, yes_option
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
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.control.client import Client
    from hostler.control.schemas import Reservation

__all__ = ["reservation"]


_ALL_ROOM = "takes_all_room"  # the server's code for a reservation that leaves no room


def _amounts(one: Reservation) -> str:
    return f"{amounts_text(one.total or {})} in all" if one.shares else amounts_text(one.amounts)


def _shares(one: Reservation) -> str:
    return ", ".join(f"{host} {amounts_text(amounts)}" for host, amounts in (one.shares or {}).items())


def _hosts(one: Reservation) -> str:
    if one.shares:
        return plural(len(one.shares), "host")
    if one.hosts:
        return "by terms"
    return labels_text(one.host_selector) if one.host_selector else "all"


_FIELDS: list[Field[Reservation]] = [
    Field("PROJECT", lambda one: one.project),
    Field("NAME", lambda one: one.name),
    Field("AMOUNTS", lambda one: _amounts(one)),
    Field("HOSTS", lambda one: _hosts(one)),
    Field("GANG", lambda one: one.gang),
    Field("SINCE", lambda one: one.since),
    Field("UNTIL", lambda one: one.until),
    Field("AGE", lambda one: age(one.created_at), "right", is_wide=True),
]  # fmt: skip


@click.group(
    epilog=examples("hostler reservation create night --amounts cpu=4,memory=16Gi --selector rack=r1"),
    short_help="Reserve room on hosts for a project or a gang.",
)
def reservation() -> None:
    """Reserve room on hosts for a project or a gang. A reservation is named by NAME or PROJECT/NAME."""


@reservation.command(
    epilog=examples(
        "hostler reservation create night --amounts cpu=4,memory=16Gi --until 2030-01-31T06:00:00Z",
        "hostler reservation create crew -p team-a --amounts cpu=8 --gang crew --selector rack=r1",
        "hostler reservation create batch --total cpu=100",
    ),
    short_help="Reserve room on hosts.",
)
@click.argument("name", metavar="NAME")
@click.option("--amounts", metavar="AMOUNTS", multiple=True, help="What each host keeps: cpu=4,memory=16Gi.")
@click.option(
    "--total",
    "totals",
    metavar="AMOUNTS",
    multiple=True,
    help="Instead: what all hosts together keep, divided as equally as their room allows.",
)
@click.option("--gang", metavar="NAME", default="", help="Only for this gang of the project.")
@click.option(
    "--selector", "selectors", metavar="KEY=VALUE", multiple=True, help="A label of the hosts; else all hosts."
)
@click.option("--since", metavar="TIME", default="", help="When it begins, such as 2030-01-31T06:00:00Z; else now.")
@click.option("--until", metavar="TIME", default="", help="When it ends; else never.")
@yes_option()
@target_options
@shape_output
def create(
    target: CommandTarget, name: str, amounts: tuple[str, ...], totals: tuple[str, ...], gang: str,
    selectors: tuple[str, ...], since: str, until: str, yes: bool, output: str,
) -> None:  # fmt: skip
    """Reserve amounts on every matching host for the VMs of a project, or for one of its gangs.

    Asks first if it takes all room that is left of a resource.

    --total divides an amount over the matching hosts, once: equally over those that have room for an equal share. If
    there are none, hosts with less room keep what they have, and the others divide the rest equally. The reservation
    then names the hosts, and hosts that join later keep nothing.
    """
    if bool(amounts) == bool(totals):
        raise _not_one()
    from hostler.control.schemas import ReservationCreate

    with target.open() as client:
        project, word = client.split_name(name)
        words = {
            "name": word, "project": project, "amounts": read_amounts("--amounts", amounts),
            "total": read_amounts("--total", totals), "gang": gang,
            "host_selector": read_pairs("--selector", selectors), "since": since, "until": until,
        }  # fmt: skip
        made = _ask_for_all(
            lambda leave_room: client.reservations.create(as_schema(ReservationCreate, {**words, **leave_room})),
            is_sure=yes,
        )
        _note_gang(client, made)
    _show(made, output)


@reservation.command(
    epilog=examples("hostler reservation edit night --amounts cpu=8 --until 2030-02-01T06:00:00Z"),
    short_help="Change a reservation.",
)
@click.argument("name", metavar="NAME")
@click.option("--amounts", metavar="AMOUNTS", multiple=True, help="The new amounts that each host keeps.")
@click.option(
    "--total",
    "totals",
    metavar="AMOUNTS",
    multiple=True,
    help="Instead: what all hosts together keep, divided again, also over hosts that joined since.",
)
@click.option("--gang", metavar="NAME", default=None, help="Only for this gang; '' for the whole project.")
@click.option("--selector", "selectors", metavar="KEY=VALUE", multiple=True, help="A label of the hosts.")
@click.option("--since", metavar="TIME", default=None, help="When it begins; '' for now.")
@click.option("--until", metavar="TIME", default=None, help="When it ends; '' for never.")
@yes_option()
@target_options
@shape_output
def edit(
    target: CommandTarget, name: str, amounts: tuple[str, ...], totals: tuple[str, ...], gang: str | None,
    selectors: tuple[str, ...], since: str | None, until: str | None, yes: bool, output: str,
) -> None:  # fmt: skip
    """Change a reservation; options that are not given stay.

    Asks first if its hosts or amounts change and it then takes all room that is left of a resource.
    """
    from hostler.control.schemas import ReservationEdit

    words: dict[str, Any] = {"gang": gang, "since": since, "until": until}
    words = {key: value for key, value in words.items() if value is not None}
    if amounts and totals:
        raise _not_one()
    if totals:
        words["total"] = read_amounts("--total", totals)
    if amounts:
        words["amounts"] = read_amounts("--amounts", amounts)
    if selectors:
        words["host_selector"] = read_pairs("--selector", selectors)
    if not words:
        raise InputError("nothing to change", hint="give --amounts, --until or another option")
    is_sure = yes or not (amounts or totals or selectors)
    with target.open() as client:
        path = client.split_name(name)
        after = _ask_for_all(
            lambda leave_room: client.reservations.edit(as_schema(ReservationEdit, {**words, **leave_room}), *path),
            is_sure=is_sure,
        )
        _note_gang(client, after)
    _show(after, output)


def _not_one() -> InputError:
    return InputError("give either --amounts or --total", hint="--amounts is kept on each host, --total on all")


def _ask_for_all(send: Callable[[dict[str, bool]], Reservation], *, is_sure: bool) -> Reservation:
    """Send a reservation that is to leave room; if it takes all, ask, and send it as it is."""
    from hostler.control.client.errors import ServerConflictError

    if is_sure:
        return send({})
    try:
        return send({"leave_room": True})
    except ServerConflictError as error:
        if error.code != _ALL_ROOM:
            raise
        problem = error.message
    confirm(f"{problem[:1].upper()}{problem[1:]}. Reserve it?", is_sure=False)
    return send({})


def _note_gang(client: Client, one: Reservation) -> None:
    """Print a note if the gang does not exist yet: its name may be mistyped."""
    from hostler.control.client.errors import NotAllowedError, ServerNotFoundError

    if not one.gang:
        return
    try:
        client.gangs.get(one.project, one.gang)
    except ServerNotFoundError:
        gang = f"{one.project}/{one.gang}"
        note(f"gang {gang} does not exist yet, so no VM may use that room: 'hostler gang create' creates it")
    except NotAllowedError:
        return  # this key may keep room and read no gangs


def _show(one: Reservation, form: str) -> None:
    """Print the reservation, and a note with its effect."""
    named = [name for term in one.hosts for name in term.names if not term.expressions]
    where = f"on each of {plural(len(named), 'host')}" if len(named) > 1 else "on each host"
    what = f"{amounts_text(one.amounts)} {where}"
    if one.shares:
        what = f"{amounts_text(one.total or {})} on {plural(len(one.shares), 'host')} ({_shares(one)})"
    show_result(one, form, f"reservation {one.project}/{one.name}: {what}")
    if form == "table" and one.note:
        note(one.note)


_NOUN = ResourceCommands(
    group=reservation,
    title="reservation {}",
    calls=lambda client: client.reservations,
    fields=_FIELDS,
    details=[*_FIELDS, Field("SHARES", _shares), Field("NOW", lambda one: one.note)],
    plural="reservations",
    nothing="'hostler reservation create NAME --amounts cpu=4,memory=16Gi' makes one",
    is_in_project=True,
)
_NOUN.add_list("List the reservations.", "List the reservations of a project.", "hostler reservation list -A")
_NOUN.add_get("Show one reservation.", "Show a reservation.", "hostler reservation get night")
_NOUN.add_delete(
    "Delete a reservation.", "Delete a reservation and release its room.", "hostler reservation delete night"
)
