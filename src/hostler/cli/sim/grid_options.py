"""What ``compare`` and ``sweep`` share: lists of policies, workloads and seeds, and who does the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.errors import UnknownNameError

if TYPE_CHECKING:
    from hostler.model import Policy
    from hostler.sim.executors import Runner
    from hostler.sim.grids import ScenarioSource

__all__ = ["check_workloads", "chosen_policies", "chosen_runner", "jobs_option", "listed", "policies_option"]
__all__ += ["scenario_and_policies", "seeds_option", "workloads_option"]

F = TypeVar("F", bound=Callable[..., Any])


def listed(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    """Read names with commas between them; one that is there twice counts once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def policies_option() -> Callable[[F], F]:
    """Add ``--policies A,B``."""
    return click.option(
        "--policies", metavar="NAMES", default="", callback=listed, help="Policies, with commas between them."
    )


def workloads_option() -> Callable[[F], F]:
    """Add ``--workload A,B``."""
    return click.option(
        "--workload",
        "workloads",
        metavar="NAMES",
        default="default",
        show_default=True,
        callback=listed,
        help="Pod lists of openb, with commas between them; see 'hostler sim run --help'.",
    )


def seeds_option() -> Callable[[F], F]:
    """Add ``--seeds``."""
    return click.option(
        "--seeds",
        metavar="SEEDS",
        default="10",
        show_default=True,
        callback=_seeds,
        help="How many, from 42 on; a range such as 42-51; or a list such as 42,47.",
    )


def jobs_option() -> Callable[[F], F]:
    """Add ``--jobs N``."""
    return click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(1, 4096),
        default=None,
        help="How many processes work at a time; else one per core.",
    )


def _seeds(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    from hostler.sim.grids import read_seeds

    return read_seeds(text)


def check_workloads(names: Sequence[str]) -> None:
    """Refuse workloads that openb does not have."""
    from hostler.sim.traces.openb import WORKLOADS

    for name in names:
        if name not in WORKLOADS:
            raise UnknownNameError(f"openb has no workload {name!r}", hint=f"one of {', '.join(WORKLOADS)}")


def chosen_policies(
    names: Sequence[str], plugins: tuple[Path, ...], known: Mapping[str, Policy] | None = None
) -> tuple[Policy, ...]:
    """Return policies as data; whatever they name must be there."""
    from hostler.cli.sim.options import policy_and_registry

    found = known or {}
    return tuple(found[name] if name in found else policy_and_registry(name, plugins)[0] for name in names)


def scenario_and_policies(
    path: str, seed: int, names: Sequence[str], plugins: tuple[Path, ...], known: Mapping[str, Policy] | None = None
) -> tuple[ScenarioSource, tuple[str | Policy, ...]]:
    """Read a scenario once, so that what is wrong with it is told before anything runs.

    A policy that the scenario brings stays a name: the scenario goes with it.
    """
    from hostler.engine import BUILT_IN
    from hostler.sim.grids import scenario_source
    from hostler.sim.own_plugins import load_plugin_files
    from hostler.sim.scenarios import read_scenario

    document, source = scenario_source(path)
    scenario = read_scenario(document, {**BUILT_IN, **load_plugin_files(plugins).policies}, seed=seed)
    own = {policy.name for policy in scenario.policies}
    return source, tuple(name if name in own else chosen_policies([name], plugins, known)[0] for name in names)


def chosen_runner(jobs: int | None, dask: str, cells: int) -> Runner:
    """Return who runs the cells; kernels are compiled before several processes would all do so."""
    from hostler.sim.executors import compile_kernels, run_here, run_in_processes, usable_cores

    if dask:
        from hostler.sim.dask_cluster import run_on_dask

        return partial(run_on_dask, address=dask)
    processes = min(jobs or usable_cores(), cells)
    if processes <= 1:
        return run_here
    compile_kernels()
    return partial(run_in_processes, processes=processes)
