"""``hostler key``: API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.asking import confirm, life_of, seconds_of, yes_option
from hostler.cli.control.connecting import There, connects_fleet_wide
from hostler.cli.control.shaping import valid
from hostler.cli.control.showing import Field, age, output, shape_output, show_lines, show_list
from hostler.cli.control.token import tell_secret
from hostler.cli.options import examples
from hostler.cli.terminal import note, print_data, say

if TYPE_CHECKING:
    from hostler.control.api.shapes import Key, KeyMade

__all__ = ["key"]


@click.group(
    epilog=examples(
        "(umask 077; hostler key create ci --role editor --in-project team-a > ci.key)", "hostler key whoami"
    ),
    short_help="Make, rotate and revoke API keys.",
)
def key() -> None:
    """Make, rotate and revoke the API keys of a control plane."""


@key.command(
    epilog=examples(
        "(umask 077; hostler key create ci --role editor --in-project team-a --ttl 720h > ci.key)",
        "hostler key create metrics --role viewer --scope metrics.read",
    ),
    short_help="Make a key and print it, once.",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "editor", "admin"]),
    required=True,
    help="What it may do.",
)
@click.option("--in-project", metavar="NAME", default="", help="The only project that it opens; else all of them.")
@click.option("--scope", "scopes", metavar="PATTERN", multiple=True, help="A permission, or a pattern such as vm.*")
@click.option("--ttl", metavar="DURATION", default="", help="For how long it is good; else until it is revoked.")
@connects_fleet_wide
@shape_output
def create(there: There, name: str, role: str, in_project: str, scopes: tuple[str, ...], ttl: str, output: str) -> None:
    """Make a key, no stronger than your own, and print it, this once: nobody can show it again.

    NAME says what it is for. Standard output gets the key and nothing else.
    """
    from hostler.control.api.shapes import KeyCreate

    words = {"name": name, "role": role, "project": in_project, "scopes": list(scopes) or None}
    wish = valid(KeyCreate, {**words, "ttl_s": life_of("--ttl", ttl, longest_d=3650) if ttl else None})
    with there.open() as client:
        _tell(client.keys.create(wish), output)


@key.command("list", epilog=examples("hostler key list", "hostler key list -o wide"), short_help="List the keys.")
@connects_fleet_wide
@output
def list_(there: There, output: str) -> None:
    """List the keys that you may see, without their secrets.

    A key that is unconfirmed came back by a restore, and is rejected until 'hostler key confirm'.
    """
    fields: list[Field[Key]] = [
        Field("ID", lambda one: one.id),
        Field("NAME", lambda one: one.name),
        Field("ROLE", lambda one: one.role),
        Field("PROJECT", lambda one: one.project or "(all)"),
        Field("EXPIRES", lambda one: age(one.expires_at) if one.expires_at else "never"),
        Field("REVOKED", lambda one: age(one.revoked_at)),
        Field("UNCONFIRMED", lambda one: age(one.unconfirmed_since)),
        Field("LAST USED", lambda one: age(one.used_at)),
        Field("SCOPES", lambda one: ",".join(one.scopes), is_wide=True),
        Field("MADE BY", lambda one: one.actor, is_wide=True),
    ]
    with there.open() as client:
        show_list(client.keys.list(), fields, output, nothing="there are no keys")


@key.command(
    epilog=examples("(umask 077; hostler key rotate 7cqqbrtggybk24nn --overlap 1h > new.key)"),
    short_help="Make a key that takes the place of another.",
)
@click.argument("key_id", metavar="ID")
@click.option("--overlap", metavar="DURATION", default="0", help="For how long the old key stays good.")
@connects_fleet_wide
@shape_output
def rotate(there: There, key_id: str, overlap: str, output: str) -> None:
    """Make a key with the same rights, and end the old one, at once or after an overlap."""
    with there.open() as client:
        _tell(client.keys.rotate(key_id, overlap_s=seconds_of("--overlap", overlap)), output)


@key.command(epilog=examples("hostler key revoke 7cqqbrtggybk24nn"), short_help="Make keys useless.")
@click.argument("keys", metavar="ID…", nargs=-1, required=True)
@yes_option()
@connects_fleet_wide
def revoke(there: There, keys: tuple[str, ...], yes: bool) -> None:
    """Make keys useless, at once; on a terminal you are asked first."""
    confirm(f"Revoke {', '.join(keys)}?", is_sure=yes)
    with there.open() as client:
        for one in keys:
            client.keys.revoke(one)
            say(f"key {one}: revoked")


@key.command(
    "confirm",
    epilog=examples("hostler key confirm 7cqqbrtggybk24nn"),
    short_help="Accept keys again that a restore brought back.",
)
@click.argument("keys", metavar="ID…", nargs=-1, required=True)
@connects_fleet_wide
def confirm_(there: There, keys: tuple[str, ...]) -> None:
    """Accept keys again that a restore brought back and disabled, because they may have been revoked since the backup.

    'hostler key list' shows them as unconfirmed.
    """
    with there.open() as client:
        for one in keys:
            client.keys.confirm(one)
            say(f"key {one}: accepted")


@key.command(
    "renew-sessions", epilog=examples("hostler key renew-sessions"), short_help="End all sessions of the dashboard."
)
@yes_option()
@connects_fleet_wide
def renew_sessions(there: There, yes: bool) -> None:
    """End all sessions of the dashboard, copies of their cookies included; on a terminal you are asked first.

    What sessions are signed with is made anew: do this when a backup of the database was lost. Keys stay as they are.
    """
    confirm("End all sessions of the dashboard?", is_sure=yes)
    with there.open() as client:
        client.keys.end_sessions()
    say("all sessions of the dashboard have ended")


@key.command(epilog=examples("hostler key whoami"), short_help="Show whose key is used, and what it may do.")
@connects_fleet_wide
@output
def whoami(there: There, output: str) -> None:
    """Show whose key is used, and what it may do."""
    with there.open() as client:
        found, server = client.whoami(), client.reach.server
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
        return
    lines = {
        "Server": server,
        "Key": f"{found.name} ({found.id})",
        "Role": found.role,
        "Project": found.project or "(all)",
        "Until": found.until or "no end",
        "Scopes": ", ".join(found.scopes),
    }
    show_lines(lines | ({"Permissions": "\n".join(found.permissions)} if output == "wide" else {}))


def _tell(made: KeyMade, output: str) -> None:
    if output != "table":
        print_data(msgspec.to_builtins(made), output)
        return
    tell_secret(made.secret)
    where = f"in project {made.key.project}" if made.key.project else "in all projects"
    note(
        f"key {made.key.id} ({made.key.name}): {made.key.role} {where}, until {made.key.expires_at or 'it is revoked'}"
    )
