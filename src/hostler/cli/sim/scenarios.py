"""Scenarios on the command line: run one file, and show what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hostler.cli.kernels import Kernels
from hostler.cli.terminal import note, print_table, progress, say

if TYPE_CHECKING:
    from hostler.sim.scenarios import Outcome
    from hostler.sim.scenarios.outcome import Waits

__all__ = ["run_file", "show_outcome"]

_LONG = 20_000  # guests from which on a progress bar is shown
_POINTS = 12  # lines of the table of measurements


def run_file(path: str, policy: str, seed: int | None, plugins: tuple[Path, ...], compiled: Kernels) -> Outcome:
    """Run the scenario in a file, under the policy named or the scenario's own."""
    from hostler.cli.plugins import registry_for
    from hostler.engine import BUILT_IN, DEFAULT_POLICY, Registry, find_policy
    from hostler.sim.own_plugins import load_plugin_files, with_network
    from hostler.sim.scenarios import load_scenario, run_scenario
    from hostler.sim.traces.demand import fits_nowhere

    own = with_network(load_plugin_files(plugins), policy)
    known = {**BUILT_IN, **own.policies}
    scenario = load_scenario(path, known, seed=seed)
    known.update({each.name: each for each in scenario.policies})
    chosen = find_policy(policy or scenario.policy or DEFAULT_POLICY, known)
    registry = Registry(own.factories) if own.factories else registry_for([chosen, *scenario.policies])
    if too_large := fits_nowhere(scenario.workload):
        note(f"{too_large:,} of {len(scenario.workload):,} guests are larger than every host")
    compiled.announce()
    number = scenario.seed if seed is None else seed
    if len(scenario.workload) < _LONG:
        return run_scenario(scenario, chosen, number, registry)
    with progress("simulating", len(scenario.workload)) as advance:
        return run_scenario(scenario, chosen, number, registry, advance)


def show_outcome(outcome: Outcome) -> None:
    """Write the figures of a run for people."""
    hours = outcome.span_s / 3600
    say(
        f"{outcome.scenario}, policy {outcome.policy}, seed {outcome.seed}: {outcome.hosts:,} hosts, {hours:,.1f} hours"
    )
    parts = [f"{outcome.guests:,} guests", f"{outcome.finished:,} finished"]
    for name in ("running", "waiting", "dropped", "gave_up"):
        count = getattr(outcome, name)
        parts += [f"{count:,} {name.replace('_', ' ')}"] if count else []
    say(", ".join(parts))
    used = f"in use: CPU {outcome.cpu_mean:.1%} (peak {outcome.cpu_peak:.1%}), memory {outcome.memory_mean:.1%}"
    if outcome.gpu_peak:
        used += f", GPU {outcome.gpu_mean:.1%} (peak {outcome.gpu_peak:.1%}), fragmented {outcome.fragmented_mean:.1%}"
    say(used)
    say(f"stranded: CPU {outcome.stranded_cpu_mean:.1%}, memory {outcome.stranded_memory_mean:.1%}")
    events = [
        f"{getattr(outcome, name):,} {name.replace('_', ' ')}"
        for name in ("evictions", "restarts", "migrations", "host_failures")
        if getattr(outcome, name)
    ]
    if events:
        say(f"{', '.join(events)}; {outcome.lost_work_s / 3600:,.1f} hours of work lost")
    say()
    rows = [_waits_row("all", outcome.waits)]
    rows += [_waits_row(f"priority {name}", waits) for name, waits in sorted(outcome.waits_by_priority.items())]
    rows += [_waits_row(name.replace("_", " "), waits) for name, waits in outcome.waits_by_size.items()]
    headings = [("WAITED", "left"), ("GUESTS", "right"), ("MEAN", "right"), ("P95", "right"), ("LONGEST", "right")]
    print_table(headings, rows)
    say()
    _show_series(outcome)


def _waits_row(name: str, waits: Waits) -> tuple[str, ...]:
    return (name, f"{waits.guests:,}", _seconds(waits.mean), _seconds(waits.p95), _seconds(waits.longest))


def _seconds(value: float) -> str:
    if value < 120:
        return f"{value:.1f}s"
    return f"{value / 60:.1f}m" if value < 7200 else f"{value / 3600:.1f}h"


def _show_series(outcome: Outcome) -> None:
    series = outcome.series
    step = max(len(series.at_s) // _POINTS, 1)
    rows = [
        (
            f"{series.at_s[at] / 3600:.1f}h",
            f"{series.running[at]:,}",
            f"{series.waiting[at]:,}",
            f"{series.cpu[at]:.1%}",
            f"{series.gpu[at]:.1%}",
            f"{series.load[at]:.1%}",
        )
        for at in range(0, len(series.at_s), step)
    ]
    headings = [(name, "right") for name in ("TIME", "RUNNING", "WAITING", "CPU", "GPU", "LOAD")]
    print_table(headings, rows)
