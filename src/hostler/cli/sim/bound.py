"""``hostler sim bound``: the most that any scheduler could allocate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.options import NumberRange, examples, output_option
from hostler.cli.output.terminal import print_data, print_table, progress, say
from hostler.cli.sim.options import data_dir_option, seed_option, tune_option, workload_option
from hostler.config import prepare_kernel_cache
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.sim.bounds import GpuBound

__all__ = ["bound"]


def _percents(context: click.Context, parameter: click.Parameter, text: str) -> tuple[float, ...]:
    """Read a list such as 90,100,130."""
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 90,100,130") from None
    if not all(0 < number <= 10_000 for number in found):
        raise click.BadParameter("percents are above 0 and at most 10000")
    return found


@click.command(
    epilog=examples("hostler sim bound --at 90,100,130", "hostler sim bound --workload gpushare60 --forced 90 -o json")
)
@workload_option()
@seed_option()
@tune_option()
@click.option(
    "--at",
    metavar="PERCENTS",
    default="90,100,130",
    show_default=True,
    callback=_percents,
    help="Points of the arrivals: the requested share of all GPUs.",
)
@click.option(
    "--forced",
    metavar="PERCENT",
    type=NumberRange(0, 10_000, min_open=True),
    default=None,
    help="Also the bound for those who place everybody that arrives before this point.",
)
@data_dir_option()
@output_option("table", "json", "yaml")
def bound(
    workload: str,
    seed: int,
    tune: float,
    at: tuple[float, ...],
    forced: float | None,
    data_dir: Path | None,
    output: str,
) -> None:
    """Compute the most that any scheduler could allocate of openb's GPUs, even one that knows what is to come."""
    prepare_kernel_cache()
    from hostler.sim.bounds import gpu_bound
    from hostler.sim.openb import openb_experiment

    experiment = openb_experiment(workload, seed, tune=tune, data_dir=data_dir)
    wanted: list[tuple[float, float | None]] = [(point, None) for point in at]
    wanted += [(point, forced) for point in at if forced is not None and forced <= point]
    bounds = []
    with progress("bounds", len(wanted)) as advance:
        for point, before in wanted:
            bounds.append(gpu_bound(experiment, point, before))
            advance(1)
    if output != "table":
        import msgspec

        print_data([{"seed": seed, **msgspec.to_builtins(each)} for each in bounds], output)
        return
    gpus = plural(bounds[0].gpu_milli_total // 1000, "GPU")
    say(f"{workload}, seed {seed}: the most that can be allocated, in percent of {gpus}")
    say()
    _show(bounds, forced)


def _show(bounds: list[GpuBound], forced: float | None) -> None:
    columns = [("ASKED FOR", "right"), ("ARRIVALS", "right"), ("FREE", "right")]
    if forced is not None:
        columns.append((f"FORCED TO {forced:g}%", "right"))
    with_force = {each.at_percent: each for each in bounds if each.forced_percent is not None}
    rows = []
    for each in bounds:
        if each.forced_percent is None:
            row = [f"{each.at_percent:g}%", f"{each.arrivals:,}", _percent(each)]
            if forced is not None:
                row.append(_percent(with_force[each.at_percent]) if each.at_percent in with_force else "-")
            rows.append(row)
    print_table(columns, rows)


def _percent(bound: GpuBound) -> str:
    return f"{bound.bound_percent:.2f}" if bound.bound_percent is not None else "impossible"
