"""Options and steps that the simulator's commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.completion import complete_workload
from hostler.cli.options import NumberRange

if TYPE_CHECKING:
    from hostler.engine import Registry
    from hostler.model import Policy

__all__ = ["data_dir_option", "policy_and_registry", "seed_option", "tune_option", "workload_option"]

F = TypeVar("F", bound=Callable[..., Any])

MAX_SEED = 2**32 - 1


def workload_option() -> Callable[[F], F]:
    """Add ``--workload NAME``."""
    return click.option(
        "--workload",
        metavar="NAME",
        shell_complete=complete_workload,
        default="default",
        show_default=True,
        help="A pod list of openb: default, cpu050 to cpu250, gpushare40 to gpushare100, gpuspec10 to gpuspec33, "
        "multigpu20 to multigpu50.",
    )


def seed_option() -> Callable[[F], F]:
    """Add ``--seed N``."""
    return click.option(
        "--seed",
        metavar="N",
        type=click.IntRange(0, MAX_SEED),
        default=42,
        show_default=True,
        help="Where orders and random choices come from; 42 to 51 are the published seeds of openb.",
    )


def tune_option() -> Callable[[F], F]:
    """Add ``--tune RATIO``."""
    return click.option(
        "--tune",
        metavar="RATIO",
        type=NumberRange(0, 100),
        default=1.3,
        show_default=True,
        help="GPU demand as a share of all GPUs: pods are dropped or cloned to meet it; 0 leaves them as they are.",
    )


def data_dir_option() -> Callable[[F], F]:
    """Add ``--data-dir FOLDER``."""
    return click.option(
        "--data-dir",
        metavar="FOLDER",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        default=None,
        help="Where data files are that did not come with the package.",
    )


def policy_and_registry(name: str, plugins: tuple[Path, ...]) -> tuple[Policy, Registry]:
    """Return a policy by name, built in or from a file, and a registry that has its plugins."""
    from hostler.engine import BUILT_IN, find_policy
    from hostler.runtime.plugin_files import load_plugin_files
    from hostler.runtime.plugins import registry_for
    from hostler.sim.own_plugins import with_network

    own = with_network(load_plugin_files(plugins), name)
    policy = find_policy(name, {**BUILT_IN, **own.policies})
    return policy, registry_for([policy], own.factories)
