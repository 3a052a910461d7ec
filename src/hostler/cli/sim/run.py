"""``hostler sim run``: one experiment, scenario or trace, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from hostler.cli.completion import complete_input, complete_policy
from hostler.cli.kernels import Kernels, kernels
from hostler.cli.options import examples, output_option, plugin_option
from hostler.cli.output.terminal import note, print_data, print_table, progress, say
from hostler.cli.sim.options import (
    MAX_SEED,
    data_dir_option,
    policy_and_registry,
    tune_option,
    workload_option,
)
from hostler.cli.sim.trace_options import is_trace, load_trace, refuse_openb_options, trace_options
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.model import Policy
    from hostler.sim.fill_experiment import FillResult
    from hostler.sim.scenarios import Scenario, ScenarioOutcome
    from hostler.sim.scenarios.outcome import WaitTimes

__all__ = ["run"]

_LONG = 20_000  # guests from which on a progress bar is shown
_POINTS = 12  # lines of the table of measurements


Read = Callable[[Mapping[str, "Policy"]], "Scenario"]  # from the policies that are known


def _run_scenario(
    read: Read, policy: str, seed: int | None, plugins: tuple[Path, ...], compiled: Kernels
) -> ScenarioOutcome:
    """Run a scenario, under the policy named or the scenario's own."""
    from hostler.engine import BUILT_IN, DEFAULT_POLICY, find_policy
    from hostler.runtime.plugin_files import load_plugin_files
    from hostler.runtime.plugins import registry_for
    from hostler.sim.own_plugins import with_network
    from hostler.sim.scenarios import run_scenario

    own = with_network(load_plugin_files(plugins), policy)
    known = {**BUILT_IN, **own.policies}
    scenario = read(known)
    known.update({each.name: each for each in scenario.policies})
    chosen = find_policy(policy or scenario.policy or DEFAULT_POLICY, known)
    registry = registry_for([chosen, *scenario.policies], own.factories)
    compiled.announce()
    number = scenario.seed if seed is None else seed
    if len(scenario.workload) < _LONG:
        return run_scenario(scenario, chosen, number, registry)
    with progress("simulating", len(scenario.workload)) as advance:
        return run_scenario(scenario, chosen, number, registry, advance)


def _run_file(
    path: str, policy: str, seed: int | None, plugins: tuple[Path, ...], compiled: Kernels
) -> ScenarioOutcome:
    from hostler.sim.scenarios import load_scenario
    from hostler.sim.traces.demand import count_oversized_guests, too_large_text

    def read(known: Mapping[str, Policy]) -> Scenario:
        scenario = load_scenario(path, known, seed=seed)
        if too_large := count_oversized_guests(scenario.workload):
            note(too_large_text(too_large, len(scenario.workload)))
        return scenario

    return _run_scenario(read, policy, seed, plugins, compiled)


def _run_trace(
    path: str, options: Mapping[str, Any], policy: str, seed: int, plugins: tuple[Path, ...], compiled: Kernels
) -> ScenarioOutcome:
    from hostler.errors import InputError
    from hostler.sim.scenarios import scenario_of_trace

    def read(known: Mapping[str, Policy]) -> Scenario:
        workload = load_trace(path, **options)  # notes guests that are larger than every host
        if not len(workload):
            raise InputError(f"{path}: there are no guests in it", hint="name a trace with at least one guest")
        return scenario_of_trace(workload, seed)

    return _run_scenario(read, policy, seed, plugins, compiled)


def show_outcome(outcome: ScenarioOutcome) -> None:
    """Write the figures of a run for people."""
    hours = outcome.span_s / 3600
    size = f"{plural(outcome.hosts, 'host')}, {hours:,.1f} hours"
    say(f"{outcome.scenario}, policy {outcome.policy}, seed {outcome.seed}: {size}")
    parts = [plural(outcome.guests, "guest"), f"{outcome.finished:,} finished"]
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


def _waits_row(name: str, waits: WaitTimes) -> tuple[str, ...]:
    return (name, f"{waits.guests:,}", _seconds(waits.mean), _seconds(waits.p95), _seconds(waits.longest))


def _seconds(value: float) -> str:
    if value < 120:
        return f"{value:.1f}s"
    return f"{value / 60:.1f}m" if value < 7200 else f"{value / 3600:.1f}h"


def _show_series(outcome: ScenarioOutcome) -> None:
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


@click.command(
    epilog=examples(
        "hostler sim run openb --policy fgd",
        "hostler sim run openb --workload gpuspec33 --policy first_fit --seed 43 -o json",
        "hostler sim run demo/scenarios/night.yaml --policy pack",
        "hostler sim run jobs.csv --map cpu=cores --map arrival=submit_time --hosts 20 --host-gpus 8",
    )
)
@click.argument("what", metavar="openb|SCENARIO|TRACE", shell_complete=complete_input)
@workload_option()
@click.option(
    "--policy",
    metavar="NAME",
    default="",
    shell_complete=complete_policy,
    help="See 'hostler policies'. Default: fgd, or what the scenario names.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0, MAX_SEED),
    default=None,
    help="Where orders and random choices come from. Default: 42, or the scenario's; openb published 42 to 51.",
)
@tune_option()
@trace_options()
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
    **options: Any,  # noqa: ANN401 (see trace_options)
) -> None:
    """Run one experiment, scenario or trace.

    openb: pods arrive one by one, never leave, and are dropped if they do not fit. SCENARIO: a file of kind Scenario,
    with arrivals, departures, queues, failures and more. TRACE: a file of 'hostler sim trace formats', or
    openb/WORKLOAD; guests arrive and leave as recorded, and wait if they do not fit. A YAML or JSON file is a scenario,
    unless an option says how to read a trace.
    """
    plays_trace = is_trace(what)
    if what != "openb":
        _refuse_other_words(what)
        refuse_openb_options(plays_trace=plays_trace)
    with kernels() as compiled:
        result: FillResult | ScenarioOutcome
        if what == "openb":
            number = 42 if seed is None else seed
            result = _openb(workload, policy or "fgd", number, tune, data_dir, plugins, compiled)
        elif plays_trace:
            number = 42 if seed is None else seed
            result = _run_trace(what, {**options, "data_dir": data_dir}, policy, number, plugins, compiled)
        else:
            result = _run_file(what, policy, seed, plugins, compiled)
    if output != "table":
        import msgspec

        print_data(msgspec.to_builtins(result), output)
    elif what == "openb":
        _show(cast("FillResult", result))
    else:
        show_outcome(cast("ScenarioOutcome", result))


def _refuse_other_words(what: str) -> None:
    """Reject a misspelled experiment."""
    if not Path(what).exists() and "." not in what and "/" not in what:
        raise click.UsageError(f"there is no experiment {what!r}; did you mean openb?")


def _openb(
    workload: str,
    policy: str,
    seed: int,
    tune: float,
    data_dir: Path | None,
    plugins: tuple[Path, ...],
    compiled: Kernels,
) -> FillResult:
    from hostler.sim.fill_experiment import run_fill_experiment
    from hostler.sim.openb import openb_experiment

    chosen, registry = policy_and_registry(policy, plugins)
    experiment = openb_experiment(workload, seed, tune=tune, data_dir=data_dir)
    compiled.announce()
    return run_fill_experiment(experiment, chosen, seed, registry)


def _show(result: FillResult) -> None:
    from hostler.sim.fill_experiment import KINDS

    gpu = 100 * result.gpu_milli_allocated / max(result.gpu_milli_total, 1)
    cpu = 100 * result.cpu_milli_allocated / max(result.cpu_milli_total, 1)
    memory = 100 * result.memory_bytes_allocated / max(result.memory_bytes_total, 1)
    say(f"{result.workload}, policy {result.policy}, seed {result.seed}")
    say(f"{plural(result.events, 'arrival')}, {result.events - result.failed:,} placed, {result.failed:,} failed")
    say(f"allocated: GPU {gpu:.2f}%, CPU {cpu:.2f}%, memory {memory:.2f}%; {plural(result.gpus_touched, 'GPU')} in use")
    idle = result.fragmentation.get("idle", 0.0)
    usable = result.fragmentation.get("q3", 0.0)
    say(f"idle: {idle / 1000:,.2f} GPUs; the typical mix could use {usable / 1000:,.2f}")
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
