"""``hostler sim run``: one experiment or scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.kernels import Kernels, kernels
from hostler.cli.options import examples, output_option
from hostler.cli.sim.options import (
    data_dir_option,
    plugin_option,
    policy_and_registry,
    seed_option,
    tune_option,
    workload_option,
)
from hostler.cli.terminal import print_data, print_table, say

if TYPE_CHECKING:
    from hostler.sim.filling import FillingResult

__all__ = ["run"]


@click.command(
    epilog=examples(
        "hostler sim run openb --policy fgd",
        "hostler sim run openb --workload gpuspec33 --policy first_fit --seed 43 -o json",
    )
)
@click.argument("what", metavar="openb")
@workload_option()
@click.option("--policy", metavar="NAME", default="fgd", show_default=True, help="See 'hostler policies'.")
@seed_option()
@tune_option()
@data_dir_option()
@plugin_option()
@output_option("table", "json", "yaml")
def run(
    what: str,
    workload: str,
    policy: str,
    seed: int,
    tune: float,
    data_dir: Path | None,
    plugins: tuple[Path, ...],
    output: str,
) -> None:
    """Run one experiment: guests arrive one by one, and who fits nowhere is dropped."""
    if what != "openb":
        raise click.UsageError(f"there is no experiment {what!r}")
    with kernels() as compiled:
        result = _openb(workload, policy, seed, tune, data_dir, plugins, compiled)
    if output != "table":
        import msgspec

        print_data(msgspec.to_builtins(result), output)
    else:
        _show(result)


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
