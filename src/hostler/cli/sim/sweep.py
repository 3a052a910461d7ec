"""``hostler sim sweep``: every combination of workloads, policies, seeds and tunings, kept in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.kernels import kernels
from hostler.cli.options import FILE, examples, plugin_option
from hostler.cli.output.terminal import note, print_table, progress, say
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
    workloads_option,
    write_rows,
)
from hostler.cli.sim.options import data_dir_option
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.sim.sweeps.cells import CellResult, SweepCell
    from hostler.sim.sweeps.grids import Grid
    from hostler.sim.sweeps.sweep import ResultFolder, SweepProgress

__all__ = ["sweep"]


def _tunes(context: click.Context, parameter: click.Parameter, text: str) -> tuple[float, ...]:
    try:
        found = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 1.0,1.3") from None
    if not all(0 <= number <= 100 for number in found):
        raise click.BadParameter("ratios are from 0 to 100")
    return found


@click.command(
    epilog=examples(
        "hostler sim sweep results --policies fgd,first_fit --workload default,gpuspec33 --runs 10",
        "hostler sim sweep results --file grid.yaml --dask tcp://10.0.0.5:8786",
        "hostler sim sweep results --results -o csv -O results.csv",
    )
)
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False))
@click.option("--file", metavar="FILE", type=FILE, default=None, help="A grid: a file of kind Sweep.")
@policies_option()
@workloads_option()
@click.option(
    "--scenario", "scenarios", metavar="FILE", multiple=True, help="A scenario; instead of openb's workloads."
)
@seeds_option()
@click.option(
    "--tune", "tunes", metavar="RATIOS", default="1.3", show_default=True, callback=_tunes,
    help="GPU demand as a share of all GPUs, with commas between several.",
)  # fmt: skip
@jobs_option()
@dask_option()
@click.option("--retry", is_flag=True, help="Run cells again that failed.")
@click.option("--results", "is_query", is_flag=True, help="Run nothing; show what is in the folder.")
@data_dir_option()
@plugin_option()
@rows_options()
@click.pass_context
def sweep(
    context: click.Context,
    folder: Path,
    file: str | None,
    policies: tuple[str, ...],
    workloads: tuple[str, ...],
    scenarios: tuple[str, ...],
    seeds: tuple[int, ...],
    tunes: tuple[float, ...],
    jobs: int | None,
    dask: str,
    retry: bool,
    is_query: bool,
    data_dir: Path | None,
    plugins: tuple[Path, ...],
    output: str,
    output_file: str | None,
) -> int:
    """Run every combination of workloads, policies, seeds and tunings, and keep each result in FOLDER.

    The same command continues where it was stopped: cells with a result do not run again.
    """
    from hostler.sim.sweeps.sweep import ResultFolder, find_progress

    kept = ResultFolder(folder)
    if is_query:
        _show(kept.results(), select_format(output, output_file), output_file)
        return 0
    if output != "table" or output_file:
        raise click.UsageError("-o and -O go with --results")
    with kernels() as compiled:
        if file is not None:
            _refuse_beside_file(context)
            grid = _grid_of_file(file, data_dir)
        else:
            grid = _grid(policies, workloads, scenarios, seeds, tunes, data_dir, plugins)
        planned = find_progress(grid.cells(), kept, retries=retry)
        if not dask:
            compiled.announce()
        return _run(planned, kept, jobs, dask)


def _refuse_beside_file(context: click.Context) -> None:
    """Reject options that the file gives."""
    for name in ("policies", "workloads", "scenarios", "runs", "seeds", "tunes", "plugins"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--file gives the whole grid: leave out its {name}")


def _grid(
    policies: tuple[str, ...],
    workloads: tuple[str, ...],
    scenarios: tuple[str, ...],
    seeds: tuple[int, ...],
    tunes: tuple[float, ...],
    data_dir: Path | None,
    plugins: tuple[Path, ...],
) -> Grid:
    from hostler.sim.sweeps.cells import hash_plugin_files
    from hostler.sim.sweeps.grids import Grid

    if not policies:
        raise click.UsageError("name the policies: --policies fgd,first_fit, or give a grid with --file")
    folder = str(data_dir.resolve()) if data_dir else ""
    if scenarios:
        read = [scenario_and_policies(path, seeds[0], policies, plugins) for path in scenarios]
        sources = tuple(source for source, _ in read)
        return Grid(
            scenarios=sources, policies=read[0][1], seeds=seeds, plugins=hash_plugin_files(plugins), data_dir=folder
        )
    check_workloads(workloads)
    return Grid(
        workloads=workloads,
        policies=select_policies(policies, plugins),
        seeds=seeds,
        tunes=tunes,
        plugins=hash_plugin_files(plugins),
        data_dir=folder,
    )


def _grid_of_file(file: str, data_dir: Path | None) -> Grid:
    from hostler.engine import BUILT_IN
    from hostler.sim.sweeps.cells import hash_plugin_files
    from hostler.sim.sweeps.grids import Grid, as_paths, file_seeds, own_policies, read_sweep_file

    document, wanted = read_sweep_file(file)
    check_workloads(wanted.workloads)
    defined = {policy.name: policy for policy in own_policies(document, wanted, BUILT_IN)}
    plugins = tuple(as_paths(wanted.plugins, file))
    seeds = file_seeds(document, wanted)
    paths = as_paths(wanted.scenarios, file)
    read = [scenario_and_policies(str(path), seeds[0], wanted.policies, plugins, defined) for path in paths]
    policies = select_policies(wanted.policies, plugins, defined) if wanted.workloads else read[0][1]
    return Grid(
        workloads=tuple(wanted.workloads),
        scenarios=tuple(source for source, _ in read),
        policies=policies,
        seeds=seeds,
        tunes=tuple(wanted.tunes),
        plugins=hash_plugin_files(plugins),
        data_dir=str(data_dir.resolve()) if data_dir else "",
    )


def _run(planned: SweepProgress, kept: ResultFolder, jobs: int | None, dask: str) -> int:
    from hostler.sim.sweeps.sweep import run_sweep

    failed = [result for result in planned.done if result.error]
    total = len(planned.done) + len(planned.left)
    ran = 0

    def count(result: CellResult) -> None:
        nonlocal ran
        ran += 1
        if result.error:
            failed.append(result)
        advance(1)

    try:
        with progress("cells", total) as advance:
            advance(len(planned.done))
            if planned.left:
                run_sweep(planned.left, kept, select_runner(jobs, dask, len(planned.left)), count)
    except KeyboardInterrupt:
        done = f"{len(planned.done) + ran} of {plural(total, 'cell')} {'is' if total == 1 else 'are'} done"
        note(f"{done}; the same command continues from there")
        raise
    say(f"{plural(total, 'cell')}: {len(planned.done):,} were there, {ran:,} ran, {len(failed):,} failed")
    for result in failed[:5]:
        note(f"{result.cell.label}: {result.error}", label="failed: ")
    return 1 if failed else 0


def _show(results: Sequence[CellResult], output: str, file: str | None) -> None:
    if output != "table":
        write_rows([_row(result) for result in results], output, file)
        return
    shown = _shown_figures(results)
    columns = [("WORKLOAD", "left"), ("POLICY", "left"), ("TUNE", "right"), ("SEED", "right")]
    columns += [(name.upper().replace("_", " "), "right") for name in shown]
    columns.append(("ERROR", "left"))
    rows = []
    for result in results:
        cell = result.cell
        tune = "-" if cell.kind == "scenario" else f"{cell.tune:g}"
        figures = [f"{result.figures[name]:,.2f}" if name in result.figures else "-" for name in shown]
        rows.append([cell.workload, cell.policy_name, tune, str(cell.seed), *figures, result.error])
    print_table(columns, rows)


def _shown_figures(results: Sequence[CellResult]) -> list[str]:
    from hostler.sim.sweeps.cell_figures import usual_figures

    whole = [result.figures for result in results if result.figures]
    return [*usual_figures(whole), *(name for name in ("failed", "frag_percent") if any(name in run for run in whole))]


def _row(result: CellResult) -> dict[str, object]:
    cell: SweepCell = result.cell
    what = {"kind": cell.kind, "workload": cell.workload, "policy": cell.policy_name, "seed": cell.seed}
    failed = {f"failed_{kind}": count for kind, count in result.failed_by_kind.items()}
    return {**what, "tune": cell.tune, "key": result.key, "error": result.error, **result.figures, **failed}
