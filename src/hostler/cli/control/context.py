"""``hostler context``: named control planes, like the contexts of kubectl."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.connection import complete_context, require_extra
from hostler.cli.control.output import output, show_lines
from hostler.cli.options import FILE, examples
from hostler.cli.output.terminal import note, print_data, print_table, printable, say
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.client.contexts import ClientContext, Contexts

__all__ = ["context"]


@click.group(
    epilog=examples(
        "hostler context set home --server http://127.0.0.1:8470 --key-file admin.key",
        "hostler context use home",
        "hostler context list",
    )
    + "\n\nHOSTLER_SERVER, HOSTLER_KEY_FILE, HOSTLER_CA_FILE, HOSTLER_PROJECT and HOSTLER_CONTEXT override what is "
    "stored here; options of a command override both.",
    short_help="Name control planes, and choose one.",
)
def context() -> None:
    """Manage contexts: named control planes with keys and projects.

    They are stored in contexts.yaml of the user's configuration folder, keys in separate files beside it.
    """


@context.command(
    "set",
    epilog=examples(
        "hostler context set home --server http://127.0.0.1:8470 --key-file admin.key",
        "hostler context set prod --server https://control.example:8443 --key-file - --ca-file ca.pem -p team-a",
        "hostler context set prod --project team-b",
    ),
    short_help="Add a context, or change one.",
)
@click.argument("name", metavar="NAME", shell_complete=complete_context)
@click.option("--server", metavar="URL", default="", help="The control plane, such as https://control.example:8443.")
@click.option(
    "--key-file",
    metavar="FILE",
    type=FILE,
    default="",
    help="An API key, which is copied: a file of mode 0600, or '-' for standard input.",
)
@click.option("--ca-file", metavar="FILE", type=FILE, default="", help="Certificates (PEM) that sign the server's.")
@click.option("-p", "--project", metavar="NAME", default="", help="The project of names without one.")
@click.option(
    "--insecure/--no-insecure", default=None, help="Allow plain http:// beyond this machine: only on safe networks."
)
def set_(name: str, server: str, key_file: str, ca_file: str, project: str, insecure: bool | None) -> None:
    """Add a context, or change the given fields of one. The first context becomes the current one."""
    with require_extra("control", "context"):
        from hostler.control.client.contexts import ClientContext, keep_key, load, save
        from hostler.control.client.server_target import check_server, read_key, tls_context
    from hostler.control.vms.spec import check_word

    check_word("the context's name", name)
    check_word("--project", project)
    contexts = load()
    before = contexts.contexts.get(name)
    if before is None and not server:
        raise InputError(f"the new context {name} needs a server", hint="give --server URL")
    after = before or ClientContext(server=server)
    if server and before is not None and server.rstrip("/") != before.server and not key_file and before.key_file:
        raise InputError(
            f"the key of {name} is for {before.server}", hint="give --key-file with one for the new server"
        )
    if ca_file:
        tls_context(Path(ca_file).expanduser())
    changes = {
        "server": server.rstrip("/"),
        "project": project,
        "ca_file": str(Path(ca_file).expanduser().absolute()) if ca_file else "",
        "insecure": insecure,
    }
    after = msgspec.structs.replace(after, **{key: value for key, value in changes.items() if value not in ("", None)})
    check_server(after.server, is_insecure=after.insecure)
    if key_file:
        after = msgspec.structs.replace(after, key_file=str(keep_key(name, read_key(key_file))))
    is_current = not contexts.current or contexts.current == name
    current = name if is_current else contexts.current
    save(msgspec.structs.replace(contexts, current=current, contexts={**contexts.contexts, name: after}))
    say(printable(f"context {name}: {after.server}{', the current one' if is_current else ''}"))
    if not is_current:
        note(f"the current one is still {current}: 'hostler context use {name}' chooses this one")
    if not after.key_file:
        note(f"it has no key: 'hostler context set {name} --key-file FILE' gives it one")


@context.command(epilog=examples("hostler context use prod"), short_help="Choose the current context.")
@click.argument("name", metavar="NAME", shell_complete=complete_context)
def use(name: str) -> None:
    """Make a context the current one, which is used if no other is named."""
    from hostler.control.client.contexts import save

    contexts = _load()
    contexts.find(name)
    save(msgspec.structs.replace(contexts, current=name))
    say(printable(f"context {name}: the current one"))
    _note_environment()


@context.command("list", epilog=examples("hostler context list"), short_help="List the contexts.")
@output
def list_(output: str) -> None:
    """List the contexts; a star marks the current one."""
    contexts = _load()
    if output in ("json", "yaml"):
        items = [_as_data(contexts, name) for name in contexts.contexts]
        print_data({"current": contexts.current or None, "items": items}, output)
        return
    is_wide = output == "wide"
    if not contexts.contexts:
        note("there are no contexts: 'hostler context set' creates one", label="")
        return
    rows = [
        ["*" if name == contexts.current else "", name, one.server, one.project, one.key_file][: 5 if is_wide else 4]
        for name, one in contexts.contexts.items()
    ]
    headings = ["", "NAME", "SERVER", "PROJECT", "KEY FILE"][: 5 if is_wide else 4]
    print_table([(heading, "left") for heading in headings], rows)
    _note_environment()


@context.command(epilog=examples("hostler context show", "hostler context show prod -o json"), short_help="Show one.")
@click.argument("name", metavar="[NAME]", required=False, default="", shell_complete=complete_context)
@output
def show(name: str, output: str) -> None:
    """Show a context, by default the current one; never its key."""
    contexts = _load()
    word = name or contexts.current
    if not word:
        raise InputError("there is no current context", hint="'hostler context use NAME' chooses one")
    contexts.find(word)
    data = _as_data(contexts, word)
    if output in ("json", "yaml"):
        print_data(data, output)
    else:
        show_lines(
            {key.replace("_", " ").capitalize(): value for key, value in data.items() if value not in ("", None)}
        )
        if not name:
            _note_environment()


@context.command(epilog=examples("hostler context remove prod"), short_help="Remove a context with its key.")
@click.argument("name", metavar="NAME", shell_complete=complete_context)
def remove(name: str) -> None:
    """Remove a context and its stored key. The key itself stays valid: see 'hostler key revoke'."""
    from hostler.control.client.contexts import remove as without
    from hostler.control.client.contexts import save, use_hint

    contexts = _load()
    rest = without(contexts, name)
    save(rest)
    say(printable(f"context {name}: removed"))
    if hint := use_hint(rest):
        note(f"no context is the current one now: {hint}")


def _load() -> Contexts:
    with require_extra("control", "context"):
        from hostler.control.client.contexts import load

    return load()


def _note_environment() -> None:
    """Print the variables that override the current context."""
    from hostler.control.client.contexts import CA_FILE, CONTEXT, KEY_FILE, PROJECT, SERVER

    names = [name for name in (SERVER, KEY_FILE, CA_FILE, PROJECT, CONTEXT) if os.environ.get(name)]
    if names:
        note(f"{', '.join(names)} of the environment {'override' if names[1:] else 'overrides'} the current context")


def _as_data(contexts: Contexts, name: str) -> dict[str, object]:
    one: ClientContext = contexts.find(name)
    return {"name": name, "current": name == contexts.current, **msgspec.structs.asdict(one)}
