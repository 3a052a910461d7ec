"""How commands connect to a control plane: the options that all of them share, and the open connection.

A command gets a ``CommandTarget`` and opens it. Errors of the control plane pass through it and get the hints of this
command line. The client is imported when the connection is opened.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.options import FILE
from hostler.errors import HostlerError, UnavailableError

if TYPE_CHECKING:
    from hostler.control.client import Client

__all__ = [
    "CommandTarget",
    "complete_context",
    "complete_from_server",
    "complete_host",
    "complete_project",
    "complete_strategy",
    "complete_vm",
    "fleet_target_options",
    "hint_for",
    "require_extra",
    "target_options",
]  # fmt: skip


@contextmanager
def require_extra(extra: str, command: str) -> Iterator[None]:
    """Import within this block. A missing package becomes a hint to install the extra that has it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hostler"):
            raise
        raise UnavailableError(
            f"'hostler {command}' needs the package {error.name}", hint=f"pip install 'hostler[{extra}]'"
        ) from None


_COMMANDS = ("vm", "host", "token", "project", "quota", "reservation", "gang", "key")
_HINTS = {  # by the word of a refusal's cause
    "other_project": "name that project with -p {}; else ask an administrator for a key that may",
    "protected": "remove the protection first: 'hostler vm resize {} --no-protected'",
    "moving": "wait until it has arrived, or cancel the move: 'hostler vm migrate {} --cancel'",
    "pinned": "allow other hosts first: 'hostler vm resize {} --host NAME', or --host '' for any",
}


def hint_for(error: HostlerError) -> str:
    """Return the command that helps with a server's error; empty if the error has no cause."""
    cause = error.cause
    if cause is None:
        return ""
    if cause.code != "missing":
        return _HINTS.get(cause.code, "").format(cause.name)
    if error.code != "not_found":  # it was not asked for, but named in a request
        return "'hostler host list' shows the hosts that there are" if cause.kind == "host" else ""
    return f"'hostler {cause.kind} list' shows what there is" if cause.kind in _COMMANDS else ""


_COMPLETING_S = 1.0  # a user who presses tab does not wait longer


class CommandTarget:
    """The control plane that a command uses; ``project`` applies to names without a project."""

    def __init__(self, context: str, server: str, key_file: str, ca_file: str, project: str) -> None:
        self._words = {"context": context, "server": server, "key_file": key_file, "ca_file": ca_file}
        self._project = project

    @contextmanager
    def open(self, *, answer_s: float = 30.0) -> Iterator[Client]:
        """Connect; ``client.target.project`` is the project to use."""
        ctx = click.get_current_context(silent=True)
        with require_extra("control", ctx.command_path.removeprefix("hostler ") if ctx is not None else "vm"):
            from hostler.control.client import Client, TargetOptions, resolve_target

        with Client(resolve_target(TargetOptions(project=self._project, **self._words)), answer_s=answer_s) as client:
            try:
                yield client
            except HostlerError as error:
                error.hint = hint_for(error) or error.hint
                raise


def complete_context(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the contexts with this prefix."""
    try:
        with require_extra("control", "context"):
            from hostler.control.client.contexts import load

        return [name for name in load().contexts if name.startswith(incomplete)]
    except Exception:
        return []  # no completion is worth an error in the middle of a line


def complete_from_server(
    names: Callable[[Client, str], list[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completion that asks the control plane, and gives up quickly."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        given = {name: str(ctx.params.get(name) or "") for name in ("context", "server", "ca_file", "project")}
        key_file = str(ctx.params.get("key_file") or "")
        if key_file == "-":
            return []
        try:
            with CommandTarget(key_file=key_file, **given).open(answer_s=_COMPLETING_S) as client:
                return [name for name in names(client, incomplete) if name.startswith(incomplete)]
        except Exception:
            return []

    return complete


complete_project = complete_from_server(lambda client, incomplete: [one.name for one in client.projects.list()])
complete_strategy = complete_from_server(lambda client, incomplete: [one.name for one in client.policies().items])
complete_host = complete_from_server(lambda client, incomplete: [one.name for one in client.hosts.list(limit=500)])


def _vm_names(client: Client, incomplete: str) -> list[str]:
    project, slash, _ = incomplete.rpartition("/")
    vms = client.vms.list(project=project or client.target.project, limit=200)
    return [f"{project}{slash}{vm.name}" for vm in vms]


complete_vm = complete_from_server(_vm_names)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a control plane and a project. The command gets a :class:`CommandTarget`."""
    return _with_options(_with_target(command), (*_TARGET, _PROJECT))


def fleet_target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a control plane, for a command that has no project."""
    return _with_options(_with_target(command), _TARGET)


def _with_target(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(
        *args: Any,  # noqa: ANN401 (click's own)
        context: str,
        server: str,
        key_file: str,
        ca_file: str,
        project: str = "",
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        return command(CommandTarget(context, server, key_file, ca_file, project), *args, **kwargs)

    return run


def _with_options(
    command: Callable[..., Any], options: Sequence[Callable[[Callable[..., Any]], Callable[..., Any]]]
) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


_TARGET = (
    click.option(
        "--context",
        metavar="NAME",
        default="",
        shell_complete=complete_context,
        help="A context of 'hostler context list'; else HOSTLER_CONTEXT, or the current one.",
    ),
    click.option(
        "--server", metavar="URL", default="", help="The control plane; else HOSTLER_SERVER, or the context's."
    ),
    click.option(
        "--key-file",
        metavar="FILE",
        type=FILE,
        default="",
        help="The API key: a file of mode 0600, '-' for standard input; else HOSTLER_KEY_FILE, or the context's.",
    ),
    click.option("--ca-file", metavar="FILE", type=FILE, default="", help="Certificates (PEM) that sign the server's."),
)
_PROJECT = click.option(
    "-p",
    "--project",
    metavar="NAME",
    default="",
    shell_complete=complete_project,
    help="The project of names without one; else HOSTLER_PROJECT, or the context's.",
)
