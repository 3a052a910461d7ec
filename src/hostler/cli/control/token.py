"""``hostler token``: join tokens, by which hosts come in."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.asking import life_of
from hostler.cli.control.connecting import There, connects_fleet_wide
from hostler.cli.control.shaping import valid
from hostler.cli.control.showing import Field, age, output, shape_output, show_list
from hostler.cli.options import examples
from hostler.cli.terminal import note, print_data, say

if TYPE_CHECKING:
    from hostler.control.api.shapes import Token

__all__ = ["tell_secret", "token"]


@click.group(
    epilog=examples("(umask 077; hostler token create --host node-4 > token)", "hostler token list"),
    short_help="Make and revoke the tokens by which hosts join.",
)
def token() -> None:
    """Make and revoke the one-time tokens by which hosts join a control plane."""


@token.command(
    epilog=examples(
        "(umask 077; hostler token create > token)",
        "hostler token create --host node-4 --ttl 10m",
        "hostler token create | ssh node-4 hostler agent --token-file - --server https://control:8443 --driver qemu",
    ),
    short_help="Make a token and print it, once.",
)
@click.option(
    "--host", "host_name", metavar="NAME", default="", help="The only host that may use it; also one to rejoin."
)
@click.option("--ttl", metavar="DURATION", default="1h", show_default=True, help="How long it can be used: 1m to 168h.")
@connects_fleet_wide
@shape_output
def create(there: There, host_name: str, ttl: str, output: str) -> None:
    """Make a token for one host to join with, and print it, this once: nobody can show it again.

    Standard output gets the token and nothing else. Whoever has it can bring a host in, so keep it in a file of your
    own.
    """
    from hostler.control.api.shapes import TokenCreate

    words = {"ttl_s": life_of("--ttl", ttl, longest_d=7), "host_name": host_name}
    with there.open() as client:
        made = client.tokens.create(valid(TokenCreate, words))
    if output != "table":
        print_data(msgspec.to_builtins(made), output)
        return
    tell_secret(made.secret)
    for_whom = f" for host {made.token.host_name}" if made.token.host_name else ""
    note(f"token {made.token.id}{for_whom}, once, until {made.token.expires_at}")


@token.command(
    "list", epilog=examples("hostler token list", "hostler token list -o json"), short_help="List the tokens."
)
@connects_fleet_wide
@output
def list_(there: There, output: str) -> None:
    """List the tokens, without their secrets."""
    fields: list[Field[Token]] = [
        Field("ID", lambda one: one.id),
        Field("HOST", lambda one: one.host_name),
        Field("STATE", _state),
        Field("EXPIRES", lambda one: age(one.expires_at)),
        Field("MADE BY", lambda one: one.actor),
        Field("AGE", lambda one: age(one.created_at), "right"),
        Field("USED BY", lambda one: one.used_by, is_wide=True),
    ]
    with there.open() as client:
        nothing = "there are no tokens: 'hostler token create' makes one, by which a host joins"
        show_list(client.tokens.list(), fields, output, nothing=nothing)


@token.command(epilog=examples("hostler token revoke tk-1"), short_help="Make tokens useless.")
@click.argument("tokens", metavar="ID…", nargs=-1, required=True)
@connects_fleet_wide
def revoke(there: There, tokens: tuple[str, ...]) -> None:
    """Make tokens useless. A host that has joined with one stays."""
    with there.open() as client:
        for one in tokens:
            client.tokens.revoke(one)
            say(f"token {one}: revoked")


def tell_secret(secret: str) -> None:
    """Write a secret to standard output, and warn where that is a file that others may read."""
    say(secret)
    sys.stdout.flush()
    try:
        found = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return
    if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
        note("others may read the file that this was written to: chmod 600 it, or set 'umask 077' first")


def _state(one: Token) -> str:
    if one.revoked_at:
        return "revoked"
    if one.used_at:
        return "used"
    return "open" if age(one.expires_at).startswith("in ") else "expired"
