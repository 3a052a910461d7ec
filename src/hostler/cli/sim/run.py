"""``hostler sim run``: one experiment or scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from click.core import ParameterSource

from hostler.cli.kernels import Kernels, kernels
from hostler.cli.options import examples, output_option
from hostler.cli.sim.options import (
    MAX_SEED,
    data_dir_option,
    plugin_option,
    policy_and_registry,
    tune_option,
    workload_option,
)
from hostler.cli.sim.scenarios import run_file, show_outcome
from hostler.cli.terminal import print_data, print_table, say

if TYPE_CHECKING:
    from hostler.sim.filling import FillingResult
    from hostler.sim.scenarios import Outcome

__all__ = ["run"]


@click.command(
    epilog=examples(
        "hostler sim run openb --policy fgd",
        "hostler sim run openb --workload gpuspec33 --policy first_fit --seed 43 -o json",
        "hostler sim run demo/scenarios/night.yaml --policy pack",
    )
)
@click.argument("what", metavar="openb|SCENARIO")
@workload_option()
@click.option(
    "--policy", metavar="NAME", default="", help="See 'hostler policies'. Default: fgd, or what the scenario names."
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0, MAX_SEED),
    default=None,
    help="Where orders and random choices come from. Default: 42, or the scenario's; openb published 42 to 51.",
)
@tune_option()
@data_dir_option()
@plugin_option()
@output_option("table", "json", "yaml")
def run(
    what: str,
    workload: str,
    policy: str,
    seed: int | None,
    tune: float,
    data_dir: Path | None,
    plugins: tuple[Path, ...],
    output: str,
) -> None:
    """Run one experiment or scenario.

    openb: pods arrive one by one, never leave, and who fits nowhere is dropped. SCENARIO: a file of kind Scenario, with
    arrivals, departures, queues, failures and more.
    """
    if what != "openb":
        _refuse_other_words(what)
        _refuse_openb_options()
    with kernels() as compiled:
        result: FillingResult | Outcome
        if what == "openb":
            number = 42 if seed is None else seed
            result = _openb(workload, policy or "fgd", number, tune, data_dir, plugins, compiled)
        else:
            result = run_file(what, policy, seed, plugins, compiled)
    if output != "table":
        import msgspec

        print_data(msgspec.to_builtins(result), output)
    elif what == "openb":
        _show(cast("FillingResult", result))
    else:
        show_outcome(cast("Outcome", result))


def _refuse_other_words(what: str) -> None:
    """Tell apart a misspelt experiment, a trace, and a scenario."""
    if not Path(what).exists() and "." not in what and "/" not in what:
        raise click.UsageError(f"there is no experiment {what!r}; did you mean openb?")
    if what.endswith((".csv", ".csv.gz", ".parquet", ".journal")):
        raise click.UsageError(f"{what} is a trace; name it in a scenario: 'trace: {{path: {what}}}'")


def _refuse_openb_options() -> None:
    """Refuse options that mean nothing to a scenario, instead of ignoring them."""
    context = click.get_current_context()
    for name in ("workload", "tune", "data_dir"):
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is for openb; a scenario says so itself")


def _openb(
    workload: str,
    policy: str,
    seed: int,
    tune: float,
    data_dir: Path | None,
    plugins: tuple[Path, ...],
    compiled: Kernels,
) -> FillingResult:
    from hostler.sim.filling import fill
    from hostler.sim.openb import openb_experiment

    chosen, registry = policy_and_registry(policy, plugins)
    experiment = openb_experiment(workload, seed, tune=tune, data_dir=data_dir)
    compiled.announce()
    return fill(experiment, chosen, seed, registry)


def _show(result: FillingResult) -> None:
    from hostler.sim.filling import KINDS

    gpu = 100 * result.gpu_milli_allocated / max(result.gpu_milli_total, 1)
    cpu = 100 * result.cpu_milli_allocated / max(result.cpu_milli_total, 1)
    memory = 100 * result.memory_bytes_allocated / max(result.memory_bytes_total, 1)
    say(f"{result.workload}, policy {result.policy}, seed {result.seed}")
    say(f"{result.events:,} arrivals, {result.events - result.failed:,} placed, {result.failed:,} failed")
    say(f"allocated: GPU {gpu:.2f}%, CPU {cpu:.2f}%, memory {memory:.2f}%; {result.gpus_touched:,} GPUs in use")
    idle = result.fragmentation.get("idle", 0.0)
    usable = result.fragmentation.get("q3", 0.0)
    say(f"idle: {idle / 1000:,.2f} GPUs, of which the typical mix could use {usable / 1000:,.2f}")
    say()
    failed = [(kind.replace("_", " "), f"{result.failed_by_kind[kind]:,}") for kind in KINDS]
    print_table([("FAILED", "left"), ("GUESTS", "right")], [row for row in failed if row[1] != "0"])
    say()
    rows = [
        (f"{p}%", f"{result.curves.alloc[p]:.2f}", f"{result.curves.frag[p]:.2f}", f"{result.curves.frag_ratio[p]:.2f}")
        for p in range(0, 131, 10)
    ]
    headings = [("ASKED FOR", "right"), ("ALLOCATED %", "right"), ("FRAGMENTED %", "right"), ("OF IDLE %", "right")]
    print_table(headings, rows)
