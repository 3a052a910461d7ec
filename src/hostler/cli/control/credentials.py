"""``hostler token`` and ``hostler key``: the secrets with which hosts join and callers authenticate.

A new secret goes to standard output, alone, and is shown once.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.connection import CommandTarget, fleet_target_options
from hostler.cli.control.options import as_schema, confirm, life_of, seconds_of, yes_option
from hostler.cli.control.output import Field, age, output, shape_output, show_lines
from hostler.cli.control.resource_commands import ResourceCommands
from hostler.cli.options import examples
from hostler.cli.output.terminal import note, print_data, say

if TYPE_CHECKING:
    from hostler.control.schemas import Key, KeyMade, Token

__all__ = ["key", "token"]


@click.group(
    epilog=examples("(umask 077; hostler token create --host node-4 > token)", "hostler token list"),
    short_help="Create and revoke the tokens with which hosts join.",
)
def token() -> None:
    """Create and revoke one-time tokens with which hosts join a control plane."""


@token.command(
    "create",
    epilog=examples(
        "(umask 077; hostler token create > token)",
        "hostler token create --host node-4 --ttl 10m",
        "hostler token create | ssh node-4 hostler agent --token-file - --server https://control:8443 --driver qemu",
    ),
    short_help="Create a token and print it, once.",
)
@click.option(
    "--host", "host_name", metavar="NAME", default="", help="The only host that may use it; also one to rejoin."
)
@click.option("--ttl", metavar="DURATION", default="1h", show_default=True, help="How long it can be used: 1m to 168h.")
@fleet_target_options
@shape_output
def create_token(target: CommandTarget, host_name: str, ttl: str, output: str) -> None:
    """Create a token with which one host can join, and print it. It is shown only once.

    Standard output gets the token and nothing else. Anyone who has it can add a host, so keep it in a private file.
    """
    from hostler.control.schemas import TokenCreate

    words = {"ttl_s": life_of("--ttl", ttl, longest_d=7), "host_name": host_name}
    with target.open() as client:
        made = client.tokens.create(as_schema(TokenCreate, words))
    if output != "table":
        print_data(msgspec.to_builtins(made), output)
        return
    print_secret(made.secret)
    for_whom = f" for host {made.token.host_name}" if made.token.host_name else ""
    note(f"token {made.token.id}{for_whom}, once, until {made.token.expires_at}")


def print_secret(secret: str) -> None:
    """Write a secret to standard output, with a warning if that is a file that others can read."""
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


_TOKENS: ResourceCommands[Token] = ResourceCommands(
    group=token,
    title="token {}",
    calls=lambda client: client.tokens,
    fields=[
        Field("ID", lambda one: one.id),
        Field("HOST", lambda one: one.host_name),
        Field("STATE", _state),
        Field("EXPIRES", lambda one: age(one.expires_at)),
        Field("MADE BY", lambda one: one.actor),
        Field("AGE", lambda one: age(one.created_at), "right"),
        Field("USED BY", lambda one: one.used_by, is_wide=True),
    ],
    nothing="there are no tokens: 'hostler token create' creates one, with which a host joins",
)
_TOKENS.add_list(
    "List the tokens.",
    "List the tokens, without their secrets.",
    "hostler token list",
    "hostler token list -o json",
)
_TOKENS.add_verb(
    "revoke",
    "Revoke tokens.",
    "Revoke tokens. A host that has joined with one stays.",
    "hostler token revoke tk-1",
    act=lambda client, one: client.tokens.revoke(one),
    outcome="revoked",
)


@click.group(
    epilog=examples(
        "(umask 077; hostler key create ci --role editor --in-project team-a > ci.key)", "hostler key whoami"
    ),
    short_help="Create, rotate and revoke API keys.",
)
def key() -> None:
    """Create, rotate and revoke the API keys of a control plane."""


@key.command(
    "create",
    epilog=examples(
        "(umask 077; hostler key create ci --role editor --in-project team-a --ttl 720h > ci.key)",
        "hostler key create metrics --role viewer --scope metrics.read",
    ),
    short_help="Create a key and print it, once.",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "editor", "admin"]),
    required=True,
    help="What it may do.",
)
@click.option("--in-project", metavar="NAME", default="", help="The only project that it can access; by default all.")
@click.option("--scope", "scopes", metavar="PATTERN", multiple=True, help="A permission, or a pattern such as vm.*")
@click.option("--ttl", metavar="DURATION", default="", help="How long it is valid; by default until it is revoked.")
@fleet_target_options
@shape_output
def create_key(
    target: CommandTarget, name: str, role: str, in_project: str, scopes: tuple[str, ...], ttl: str, output: str
) -> None:
    """Create a key with no more rights than your own, and print it. It is shown only once.

    NAME says what it is for. Standard output gets the key and nothing else.
    """
    from hostler.control.schemas import KeyCreate

    words = {"name": name, "role": role, "project": in_project, "scopes": list(scopes) or None}
    wish = as_schema(KeyCreate, {**words, "ttl_s": life_of("--ttl", ttl, longest_d=3650) if ttl else None})
    with target.open() as client:
        _tell_key(client.keys.create(wish), output)


@key.command(
    epilog=examples("(umask 077; hostler key rotate 7cqqbrtggybk24nn --overlap 1h > new.key)"),
    short_help="Create a key that replaces another.",
)
@click.argument("key_id", metavar="ID")
@click.option("--overlap", metavar="DURATION", default="0", help="How long the old key stays valid.")
@fleet_target_options
@shape_output
def rotate(target: CommandTarget, key_id: str, overlap: str, output: str) -> None:
    """Create a key with the same rights, and end the old one, at once or after an overlap."""
    with target.open() as client:
        _tell_key(client.keys.rotate(key_id, overlap_s=seconds_of("--overlap", overlap)), output)


@key.command(
    "renew-sessions", epilog=examples("hostler key renew-sessions"), short_help="End all sessions of the dashboard."
)
@yes_option()
@fleet_target_options
def renew_sessions(target: CommandTarget, yes: bool) -> None:
    """End all sessions of the dashboard, copies of their cookies included. Asks first on a terminal.

    The signing secret of sessions is replaced: do this if a backup of the database was lost. Keys stay valid.
    """
    confirm("End all sessions of the dashboard?", is_sure=yes)
    with target.open() as client:
        client.keys.end_sessions()
    say("all sessions of the dashboard have ended")


@key.command(epilog=examples("hostler key whoami"), short_help="Show whose key is used, and its permissions.")
@fleet_target_options
@output
def whoami(target: CommandTarget, output: str) -> None:
    """Show whose key is used, and its permissions."""
    with target.open() as client:
        found, server = client.whoami(), client.target.server
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


def _tell_key(made: KeyMade, output: str) -> None:
    if output != "table":
        print_data(msgspec.to_builtins(made), output)
        return
    print_secret(made.secret)
    where = f"in project {made.key.project}" if made.key.project else "in all projects"
    note(
        f"key {made.key.id} ({made.key.name}): {made.key.role} {where}, until {made.key.expires_at or 'it is revoked'}"
    )


_KEYS: ResourceCommands[Key] = ResourceCommands(
    group=key,
    title="key {}",
    calls=lambda client: client.keys,
    fields=[
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
    ],
    nothing="there are no keys",
)
_KEYS.add_list(
    "List the keys.",
    """List the keys that you may see, without their secrets.

    A key that is unconfirmed came back by a restore, and is rejected until 'hostler key confirm'.
    """,
    "hostler key list",
    "hostler key list -o wide",
)
_KEYS.add_verb(
    "revoke",
    "Revoke keys.",
    "Revoke keys at once; asks first on a terminal.",
    "hostler key revoke 7cqqbrtggybk24nn",
    act=lambda client, one: client.keys.revoke(one),
    outcome="revoked",
    question="Revoke {}?",
)
_KEYS.add_verb(
    "confirm",
    "Accept keys again after a restore.",
    """Accept keys again that a restore disabled, because they may have been revoked since the backup.

    'hostler key list' shows them as unconfirmed.
    """,
    "hostler key confirm 7cqqbrtggybk24nn",
    act=lambda client, one: client.keys.confirm(one),
    outcome="accepted",
)
