"""How commands reach a control plane: options that all of them share, and the open connection."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.control.extras import needs
from hostler.cli.control.hints import hint_for_forbidden, hint_for_refused, hint_for_unknown
from hostler.cli.options import FILE

if TYPE_CHECKING:
    from hostler.control.client import Client

__all__ = [
    "There", "complete_context", "complete_host", "complete_project", "complete_strategy", "completing", "connects",
    "connects_fleet_wide",
]  # fmt: skip

_COMPLETING_S = 1.0  # whoever presses tab waits no longer


class There:
    """The control plane that a command is about; ``project`` is that of names without one."""

    def __init__(self, context: str, server: str, key_file: str, ca_file: str, project: str) -> None:
        self._words = {"context": context, "server": server, "key_file": key_file, "ca_file": ca_file}
        self._project = project

    @contextmanager
    def open(self, *, answer_s: float = 30.0) -> Iterator[Client]:
        """Connect; ``client.reach.project`` is the project that is meant."""
        ctx = click.get_current_context(silent=True)
        with needs("control", ctx.command_path.removeprefix("hostler ") if ctx is not None else "vm"):
            from hostler.control.client import Asked, Client, reach_for
            from hostler.control.client.errors import (
                NotAllowedError,
                RefusedConflictError,
                RefusedInputError,
                UnknownThereError,
            )

        with Client(reach_for(Asked(project=self._project, **self._words)), answer_s=answer_s) as client:
            try:
                yield client
            except NotAllowedError as error:
                error.hint = hint_for_forbidden(error.message) or error.hint
                raise
            except (RefusedConflictError, RefusedInputError) as error:
                error.hint = hint_for_refused(error.message) or error.hint
                raise
            except UnknownThereError as error:
                if "hostler " not in error.hint:  # else it names a command already
                    error.hint = hint_for_unknown(error.message) or error.hint
                raise


def complete_context(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the contexts that begin like this."""
    try:
        with needs("control", "context"):
            from hostler.control.client.contexts import load

        return [name for name in load().contexts if name.startswith(incomplete)]
    except Exception:
        return []  # no completion is worth an error in the middle of a line


def completing(
    names: Callable[[Client, str], list[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completion that asks the control plane, quickly or not at all."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        given = {name: str(ctx.params.get(name) or "") for name in ("context", "server", "ca_file", "project")}
        key_file = str(ctx.params.get("key_file") or "")
        if key_file == "-":
            return []
        try:
            with There(key_file=key_file, **given).open(answer_s=_COMPLETING_S) as client:
                return [name for name in names(client, incomplete) if name.startswith(incomplete)]
        except Exception:
            return []

    return complete


complete_project = completing(lambda client, incomplete: [one.name for one in client.projects.list()])
complete_strategy = completing(lambda client, incomplete: [one.name for one in client.policies().items])
complete_host = completing(lambda client, incomplete: [one.name for one in client.hosts.list(limit=500)])


def connects(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which control plane is meant, and which project; the command gets one :class:`There`."""
    return _with_options(_gathered(command), (*_WAY, _PROJECT))


def connects_fleet_wide(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which control plane is meant, for a command to which projects mean nothing."""
    return _with_options(_gathered(command), _WAY)


def _gathered(command: Callable[..., Any]) -> Callable[..., Any]:
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
        return command(There(context, server, key_file, ca_file, project), *args, **kwargs)

    return run


def _with_options(
    command: Callable[..., Any], options: Sequence[Callable[[Callable[..., Any]], Callable[..., Any]]]
) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


_WAY = (
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
    help="The project of what is named without one; else HOSTLER_PROJECT, or the context's.",
)
