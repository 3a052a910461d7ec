"""``hostler sim compare``: policies side by side on the same arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hostler.cli.completion import complete_compared_policy, complete_input
from hostler.cli.kernels import kernels
from hostler.cli.options import NumberRange, examples, plugin_option
from hostler.cli.output.terminal import print_table, progress, say
from hostler.cli.sim.grids import (
    check_workloads,
    dask_option,
    jobs_option,
    policies_option,
    rows_options,
    scenario_and_policies,
    seeds_option,
    select_format,
    select_policies,
    select_runner,
    split_names,
    workloads_option,
    write_rows,
)
from hostler.cli.sim.options import data_dir_option, tune_option
from hostler.cli.sim.trace_options import is_trace, load_trace, refuse_openb_options, trace_options, trace_source
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.sim.sweeps.cells import CellResult, SweepCell
    from hostler.sim.sweeps.comparison import ComparisonRow
    from hostler.sim.sweeps.grids import Grid

__all__ = ["compare"]


@click.command(
    epilog=examples(
        "hostler sim compare --policies fgd,gpu_packing,first_fit",
        "hostler sim compare --policies fgd,first_fit --workload default,gpuspec33 --seeds 42-51 --bound",
        "hostler sim compare --policies spread,pack demo/scenarios/night.yaml -o csv -O night.csv",
        "hostler sim compare --policies spread,pack jobs.csv --hosts 20 --host-gpus 8",
    )
)
@click.argument("what", metavar="[openb|SCENARIO|TRACE]", default="openb", shell_complete=complete_input)
@policies_option()
@workloads_option()
@seeds_option()
@tune_option()
@click.option(
    "--figure",
    "figures",
    metavar="NAMES",
    default="",
    callback=split_names,
    help="What to compare by, with commas between; else the usual ones. -o json of 'sim sweep --results' shows all.",
)
@click.option(
    "--against",
    metavar="POLICY",
    default="first",
    shell_complete=complete_compared_policy,
    show_default=True,
    help="Whom to compare with: first, best or a name.",
)
@click.option("--bound", is_flag=True, help="Show which share of the upper bound is reached; takes a second per run.")
@click.option(
    "--forced",
    metavar="PERCENT",
    type=NumberRange(0, 10_000, min_open=True),
    default=None,
    help="With --bound: the bound of those who place everybody that arrives before this point.",
)
@jobs_option()
@dask_option()
@trace_options()
@data_dir_option()
@plugin_option()
@rows_options()
def compare(
    what: str,
    policies: tuple[str, ...],
    workloads: tuple[str, ...],
    seeds: tuple[int, ...],
    tune: float,
    figures: tuple[str, ...],
    against: str,
    bound: bool,
    forced: float | None,
    jobs: int | None,
    dask: str,
    data_dir: Path | None,
    plugins: tuple[Path, ...],
    output: str,
    output_file: str | None,
    **options: Any,  # noqa: ANN401 (see trace_options)
) -> None:
    """Compare policies: all see the same arrivals, and differences come with confidence intervals.

    SCENARIO and TRACE are those of 'hostler sim run'.
    """
    if not policies:
        raise click.UsageError("name the policies to compare: --policies fgd,first_fit")
    if against not in ("first", "best", *policies):
        raise click.UsageError(f"policy {against!r} is not among those compared")
    if bound and what != "openb":
        raise click.UsageError("--bound is for openb, where guests never leave")
    if forced is not None and not bound:
        raise click.UsageError("--forced needs --bound")
    plays_trace = is_trace(what)
    if plays_trace:
        refuse_openb_options(plays_trace=True)
    output = select_format(output, output_file)
    with kernels() as compiled:
        if plays_trace:
            grid = _trace_grid(what, options, policies, seeds, data_dir, plugins)
        else:
            grid = _grid(what, policies, workloads, seeds, tune, data_dir, plugins)
        cells = [*grid.cells(), *(grid.bounds(forced) if bound else ())]
        if not dask:
            compiled.announce()
        results = _run(cells, jobs, dask)
    rows = _compared(results, figures, against)
    if output == "table":
        _show(rows, len(seeds), is_bounded=bound)
    else:
        import msgspec

        write_rows([msgspec.to_builtins(row) for row in rows], output, output_file)


def _grid(
    what: str,
    policies: tuple[str, ...],
    workloads: tuple[str, ...],
    seeds: tuple[int, ...],
    tune: float,
    data_dir: Path | None,
    plugins: tuple[Path, ...],
) -> Grid:
    from hostler.sim.sweeps.cells import hash_plugin_files
    from hostler.sim.sweeps.grids import Grid

    files = hash_plugin_files(plugins)
    folder = str(data_dir.resolve()) if data_dir else ""
    if what != "openb":
        scenario, found = scenario_and_policies(what, seeds[0], policies, plugins)
        return Grid(scenarios=(scenario,), policies=found, seeds=seeds, plugins=files, data_dir=folder)
    check_workloads(workloads)
    chosen = select_policies(policies, plugins)
    return Grid(workloads=workloads, policies=chosen, seeds=seeds, tunes=(tune,), plugins=files, data_dir=folder)


def _trace_grid(
    what: str,
    options: Mapping[str, Any],
    policies: tuple[str, ...],
    seeds: tuple[int, ...],
    data_dir: Path | None,
    plugins: tuple[Path, ...],
) -> Grid:
    """Return the grid of a trace; it is read once here, so that its errors and notes come before anything runs."""
    from hostler.sim.sweeps.cells import hash_plugin_files
    from hostler.sim.sweeps.grids import Grid, ScenarioSource

    workload = load_trace(what, **options, data_dir=data_dir)
    if not len(workload):
        raise InputError(f"{what}: there are no guests in it", hint="name a trace with at least one guest")
    return Grid(
        scenarios=(ScenarioSource(workload.name, "", "", trace_source(what, **options)),),
        policies=select_policies(policies, plugins),
        seeds=seeds,
        plugins=hash_plugin_files(plugins),
        data_dir=str(data_dir.resolve()) if data_dir else "",
    )


def _run(cells: Sequence[SweepCell], jobs: int | None, dask: str) -> list[CellResult]:
    """Run all cells; the first that fails ends it."""
    from hostler.sim.sweeps.cells import cell_key

    runner = select_runner(jobs, dask, len(cells))
    found = {}
    with progress("runs", len(cells)) as advance, closing(runner(cells)) as finished:
        for done in finished:
            result = done.result
            if result.error:
                raise InputError(f"{result.cell.label}: {result.error}", hint=result.hint)
            found[result.key] = result
            advance(1)
    return [found[cell_key(cell)] for cell in cells]


def _compared(results: Sequence[CellResult], figures: tuple[str, ...], against: str) -> list[ComparisonRow]:
    from hostler.sim.sweeps.comparison import compare as compare_results

    runs = [result for result in results if result.cell.kind != "bound"]
    bounds = {
        (result.cell.workload, result.cell.tune, result.cell.seed): result.figures["bound_percent"]
        for result in results
        if result.cell.kind == "bound" and result.figures
    }
    return compare_results(runs, figures, against=against, bounds=bounds)


def _show(rows: Sequence[ComparisonRow], seeds: int, *, is_bounded: bool) -> None:
    columns = [("WORKLOAD", "left"), ("FIGURE", "left"), ("POLICY", "left"), ("MEAN", "right"), ("SPREAD", "right")]
    columns += [("DIFFERENCE", "right"), ("VERDICT", "left"), ("WINS", "right")]
    if is_bounded:
        columns.append(("OF BOUND %", "right"))
    cells = []
    largest: dict[str, float] = {}
    for row in rows:
        largest[row.figure] = max(abs(row.mean), largest.get(row.figure, 0.0))
    for row in rows:
        digits = 2 if largest[row.figure] >= 10 else 4
        line = [row.workload, row.figure, row.policy, f"{row.mean:,.{digits}f}"]
        line.append(f"{row.spread:,.{digits}f}" if row.seeds_matter else "-")
        margin = "" if row.margin is None else f" ± {row.margin:,.{digits}f}"
        line.append("-" if row.difference is None else f"{row.difference:+,.{digits}f}{margin}")
        line += [row.verdict or "-", f"{row.wins}/{row.runs}"]
        if is_bounded:
            line.append("-" if row.of_bound is None else f"{row.of_bound:.2f}")
        cells.append(line)
    print_table(columns, cells)
    against = list(dict.fromkeys(row.against for row in rows))
    if len(rows) > 1:
        say()
        say(f"Differences are to {' or '.join(against)}, run by run on the same arrivals.")
    if fixed := list(dict.fromkeys(row.policy for row in rows if not row.seeds_matter)):
        say()
        if all(not row.seeds_matter for row in rows):
            say(f"Seeds make no difference: each policy gives the same result with all {seeds} seeds.")
            say("So there is no interval, and one seed is enough.")
        else:
            say(f"Seeds make no difference to {', '.join(fixed)}: the result is the same with all {seeds} seeds.")
