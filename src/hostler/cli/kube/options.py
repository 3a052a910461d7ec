"""Options of the commands for Kubernetes, and the hint if the packages of the extra ``kube`` are missing.

They select the cluster: a live one by its kubeconfig, or a local one by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from hostler.cli.completion import complete_policy
from hostler.cli.options import FILE
from hostler.cli.output.terminal import printable
from hostler.errors import UnavailableError

__all__ = [
    "cluster_option", "cluster_options", "context_option", "kubeconfig_option", "namespace_option", "needs_kube",
    "tell", "via_option",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def kubeconfig_option() -> Callable[[F], F]:
    """Add ``--kubeconfig FILE``."""
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(path_type=Path, readable=False),
        default=None,
        help="The kubeconfig.  [default: KUBECONFIG, ~/.kube/config, or the pod's service account]",
    )


def context_option() -> Callable[[F], F]:
    """Add ``--context NAME``."""
    return click.option(
        "--context", metavar="NAME", default="", help="A context of the kubeconfig.  [default: its current context]"
    )


def cluster_option(help_text: str, *, default: str | None = "local") -> Callable[[F], F]:
    """Add ``--name NAME`` for a local cluster."""
    return click.option(
        "--name",
        metavar="NAME",
        default=default,
        show_default=default is not None,
        shell_complete=_complete_name,
        help=help_text,
    )


def tell(line: str) -> None:
    """Print a line of progress to standard error."""
    click.echo("\n".join(printable(part) for part in line.split("\n")), err=True)


def _complete_name(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the local clusters whose names begin like this."""
    from hostler.kube.local.state import known_clusters

    return [name for name in known_clusters() if name.startswith(incomplete)]


@contextmanager
def needs_kube() -> Iterator[None]:
    """Import within this block: a missing package becomes a hint to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hostler"):
            raise
        raise UnavailableError(
            f"the commands of 'hostler kube' need the package {error.name}", hint="pip install 'hostler[kube]'"
        ) from None


def cluster_options() -> Callable[[F], F]:
    """Add the options that select the cluster, profiles and policies."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--config",
                metavar="FILE",
                type=FILE,
                default="",
                help="The scheduler's configuration: a file of kind Scheduler, or a KubeSchedulerConfiguration.",
            ),
            click.option(
                "--policy",
                metavar="NAME",
                default="",
                shell_complete=complete_policy,
                help="The policy, if there is no --config.",
            ),
            context_option(),
            kubeconfig_option(),
        ):
            command = option(command)
        return command

    return add


def namespace_option(help_text: str = "The namespace.  [default: the context's]") -> Callable[[F], F]:
    """Add ``-n NAMESPACE``."""
    return click.option("-n", "--namespace", metavar="NAMESPACE", default="", help=help_text)


def via_option() -> Callable[[F], F]:
    """Add ``--via ADDRESS``."""
    return click.option(
        "--via",
        metavar="ADDRESS",
        default="",
        help="Ask the running scheduler: NAMESPACE/SERVICE[:PORT] through the API server, "
        "NAMESPACE/https:SERVICE[:PORT] if it serves TLS, or http://127.0.0.1:10359. The kubeconfig's token is sent to "
        "it.",
    )
