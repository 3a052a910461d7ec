"""Tables of all runs, as they were measured."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.sim.report.markup import Markup
from hostler.sim.report.runs import Experiment, Run
from hostler.sim.report.scales import figure
from hostler.sim.report.scenarios import FIGURES
from hostler.sim.report.tables import table

__all__ = ["broken_table", "filling_runs", "scenario_runs"]

_FIGURES = (
    ("gpu_percent", "GPU %", 2),
    ("cpu_percent", "CPU %", 2),
    ("memory_percent", "Memory %", 2),
    ("arrivals", "Arrivals", 0),
    ("failed", "Failed", 0),
    ("gpus_touched", "GPUs touched", 0),
    ("frag_percent", "Fragmented %", 2),
    ("gpu_percent_at_100", "GPU % at 100 %", 2),
)


def filling_runs(experiments: Sequence[Experiment]) -> Markup:
    """Return the runs of experiments in which nobody leaves."""
    columns = [("Workload", "left"), ("Policy", "left"), ("Seed", "right")]
    columns += [(title, "right") for _, title, _ in _FIGURES]
    rows = []
    for experiment in experiments:
        for run in experiment.runs:
            cells = [_written(run, name, 1.0, digits) for name, _, digits in _FIGURES]
            rows.append([experiment.label, run.policy, f"{run.seed}", *cells])
    return table("Every run, after its last arrival", columns, rows)


def scenario_runs(experiments: Sequence[Experiment]) -> Markup:
    """Return the runs of scenarios; figures that are zero everywhere are left out."""
    runs = [run for experiment in experiments for run in experiment.runs]
    names = [name for name in FIGURES if any(run.figures.get(name) for run in runs)]
    columns = [("Scenario", "left"), ("Policy", "left"), ("Seed", "right")]
    columns += [(FIGURES[name][0], "right") for name in names]
    rows = []
    for run in runs:
        cells = []
        for name in names:
            _, factor, digits = FIGURES[name]
            cells.append(_written(run, name, factor, digits if factor != 1.0 else 0))
        rows.append([run.workload, run.policy, f"{run.seed}", *cells])
    return table("Every run", columns, rows)


def broken_table(runs: Sequence[Run]) -> Markup:
    """Return the runs that ended with an error."""
    columns = [("Workload", "left"), ("Policy", "left"), ("Seed", "right"), ("Error", "left")]
    rows = [[run.workload, run.policy or run.kind, f"{run.seed}", run.error] for run in runs]
    return table("Runs that failed, and are in no other table", columns, rows)


def _written(run: Run, name: str, factor: float, digits: int) -> str:
    return figure(factor * run.figures[name], digits) if name in run.figures else "-"
