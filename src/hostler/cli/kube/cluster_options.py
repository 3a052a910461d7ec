"""Options that the commands for local clusters share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hostler.cli.terminal import printable

__all__ = ["cluster_option", "tell"]

F = TypeVar("F", bound=Callable[..., Any])


def cluster_option(help_text: str, *, default: str | None = "local") -> Callable[[F], F]:
    """Add ``--name NAME``, of a local cluster."""
    return click.option(
        "--name",
        metavar="NAME",
        default=default,
        show_default=default is not None,
        shell_complete=_complete_name,
        help=help_text,
    )


def tell(line: str) -> None:
    """Write a line of progress, to standard error."""
    click.echo("\n".join(printable(part) for part in line.split("\n")), err=True)


def _complete_name(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the local clusters that begin like this."""
    from hostler.kube.local.state import known_clusters

    return [name for name in known_clusters() if name.startswith(incomplete)]
