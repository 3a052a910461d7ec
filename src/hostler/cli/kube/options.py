"""Options of commands that talk to a live cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["context_option", "kubeconfig_option"]

F = TypeVar("F", bound=Callable[..., Any])


def kubeconfig_option() -> Callable[[F], F]:
    """Add ``--kubeconfig FILE``."""
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(path_type=Path, readable=False),
        default=None,
        help="How to reach the cluster; else KUBECONFIG, ~/.kube/config, or the pod's own account.",
    )


def context_option() -> Callable[[F], F]:
    """Add ``--context NAME``."""
    return click.option(
        "--context", metavar="NAME", default="", help="A context of the kubeconfig; else its current one."
    )
