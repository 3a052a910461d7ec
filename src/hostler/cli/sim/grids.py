"""What ``compare`` and ``sweep`` share: the options of a grid, who runs its cells, and rows of figures as files.

Rows go to standard output or to a file, as JSON, CSV or Parquet.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.completion import complete_policies, complete_workloads
from hostler.cli.files import STANDARD_STREAM, atomic_file
from hostler.cli.options import FILE, output_option
from hostler.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from hostler.model import Policy
    from hostler.sim.sweeps.executors import Runner
    from hostler.sim.sweeps.grids import ScenarioSource

__all__ = [
    "FORMATS",
    "check_workloads",
    "dask_option",
    "jobs_option",
    "policies_option",
    "rows_options",
    "scenario_and_policies",
    "seeds_option",
    "select_format",
    "select_policies",
    "select_runner",
    "split_names",
    "workloads_option",
    "write_rows",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_RUNS = "hostler.sim.runs"  # where the context keeps --runs for --seeds


def split_names(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    """Read names with commas between them; one that is there twice counts once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def policies_option() -> Callable[[F], F]:
    """Add ``--policies A,B``."""
    return click.option(
        "--policies",
        metavar="NAMES",
        default="",
        callback=split_names,
        shell_complete=complete_policies,
        help="Policies, with commas between them.",
    )


def workloads_option() -> Callable[[F], F]:
    """Add ``--workload A,B``."""
    return click.option(
        "--workload",
        "workloads",
        metavar="NAMES",
        shell_complete=complete_workloads,
        default="default",
        show_default=True,
        callback=split_names,
        help="Pod lists of openb, with commas between them; see 'hostler sim run --help'.",
    )


def seeds_option() -> Callable[[F], F]:
    """Add ``--runs N`` and ``--seeds``, which give the argument ``seeds`` together."""

    def add(command: F) -> F:
        seeds = click.option(
            "--seeds",
            metavar="SEEDS",
            default=None,
            callback=_seeds,
            help="Instead of --runs: the seeds themselves, as a range such as 42-51 or a list such as 42,47.",
        )
        # Eager: the callback of --seeds reads it.
        runs = click.option(
            "--runs",
            metavar="N",
            type=click.IntRange(1, 100_000),
            default=10,
            show_default=True,
            is_eager=True,
            expose_value=False,
            callback=_keep_runs,
            help="How many runs with different seeds, which count up from 42.",
        )
        return runs(seeds(command))

    return add


def jobs_option() -> Callable[[F], F]:
    """Add ``--jobs N``."""
    return click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(1, 4096),
        default=None,
        help="How many processes work at a time; else one per core.",
    )


def dask_option() -> Callable[[F], F]:
    """Add ``--dask ADDRESS``."""
    return click.option("--dask", metavar="ADDRESS", default="", help="Work on the cluster of this Dask scheduler.")


def _keep_runs(context: click.Context, parameter: click.Parameter, runs: int) -> None:
    context.meta[_RUNS] = runs


def _seeds(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    from hostler.sim.sweeps.grids import count_seeds, read_seeds

    if text is None:
        return count_seeds(context.meta[_RUNS])
    if context.get_parameter_source("runs") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("give --runs or --seeds, not both")
    if text.strip().isdecimal():  # older versions ran so many seeds; 'sim run --seed' takes it as one seed
        number = int(text)
        hint = f"--runs {number} runs {number} seeds; --seeds {number}-{number} runs seed {number} alone"
        raise InputError(f"--seeds {number} may mean one seed or {number} of them", hint=hint)
    return read_seeds(text)


def check_workloads(names: Sequence[str]) -> None:
    """Reject workloads that openb does not have."""
    from hostler.sim.traces.openb import WORKLOADS

    for name in names:
        if name not in WORKLOADS:
            raise UnknownNameError(f"openb has no workload {name!r}", hint=f"one of {', '.join(WORKLOADS)}")


def select_policies(
    names: Sequence[str], plugins: tuple[Path, ...], known: Mapping[str, Policy] | None = None
) -> tuple[Policy, ...]:
    """Return policies as data; whatever they name must be there."""
    from hostler.cli.sim.options import policy_and_registry

    found = known or {}
    return tuple(found[name] if name in found else policy_and_registry(name, plugins)[0] for name in names)


def scenario_and_policies(
    path: str, seed: int, names: Sequence[str], plugins: tuple[Path, ...], known: Mapping[str, Policy] | None = None
) -> tuple[ScenarioSource, tuple[str | Policy, ...]]:
    """Read a scenario once, so that its errors are reported before anything runs.

    A policy that the scenario brings stays a name: the scenario goes with it.
    """
    from hostler.engine import BUILT_IN
    from hostler.runtime.plugin_files import load_plugin_files
    from hostler.sim.scenarios import read_scenario
    from hostler.sim.sweeps.grids import scenario_source

    document, source = scenario_source(path)
    scenario = read_scenario(document, {**BUILT_IN, **load_plugin_files(plugins).policies}, seed=seed)
    own = {policy.name for policy in scenario.policies}
    return source, tuple(name if name in own else select_policies([name], plugins, known)[0] for name in names)


def select_runner(jobs: int | None, dask: str, cells: int) -> Runner:
    """Return who runs the cells; kernels are compiled before several processes would all do so."""
    from hostler.sim.sweeps.executors import compile_kernels, run_here, run_in_processes, usable_cores

    if dask:
        from hostler.sim.sweeps.dask_cluster import run_on_dask

        return partial(run_on_dask, address=dask)
    processes = min(jobs or usable_cores(), cells)
    if processes <= 1:
        return run_here
    compile_kernels()
    return partial(run_in_processes, processes=processes)


Row = Mapping[str, object]

FORMATS = ("table", "json", "csv", "parquet")


def rows_options() -> Callable[[F], F]:
    """Add ``-o FORMAT`` and ``-O FILE``."""

    def add(command: F) -> F:
        file = click.option(
            "-O",
            "--output-file",
            metavar="FILE",
            type=FILE,
            default=None,
            help="Write to a file, which appears when it is complete. Without -o its extension chooses the format.",
        )
        return output_option(*FORMATS)(file(command))

    return add


def select_format(output: str, file: str | None) -> str:
    """Return the format; with a file and no format, its extension decides."""
    ending = file.rpartition(".")[2].lower() if file else ""
    if file and output == "table":
        if ending not in FORMATS[1:]:
            raise click.UsageError(f"the extension of {file!r} is no format: give -o json, csv or parquet")
        return ending
    if output == "parquet" and (file is None or file == STANDARD_STREAM):
        raise click.UsageError("Parquet is no text: name a file with -O")
    return output


def write_rows(rows: Sequence[Row], output: str, file: str | None) -> None:
    """Write rows of equal or different keys in a format that is no table."""
    write = {"json": _json, "csv": _csv, "parquet": _parquet}[output]
    content = write(rows)
    if file is None:
        click.echo(content, nl=False)
        return
    with atomic_file(file) as put:
        put(content)


def _json(rows: Sequence[Row]) -> bytes:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n"


def _csv(rows: Sequence[Row]) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, _columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def _parquet(rows: Sequence[Row]) -> bytes:
    from hostler.sim.extras import missing_extra

    try:
        import polars
    except ImportError:
        raise missing_extra("Parquet files", "polars", "sim") from None
    if not rows:
        raise InputError("there are no rows to write")
    columns = _columns(rows)
    table = polars.DataFrame([{name: row.get(name) for name in columns} for row in rows], infer_schema_length=None)
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
