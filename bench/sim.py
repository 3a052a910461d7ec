"""What simulations cost: ``python -m bench sim``; the published simulator needs about 600 s for one experiment."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from bench.results import Report, Row, describe_machine
from bench.rows import QUICK_RUNS, RUNS
from hostler.config import parse_documents, read_documents
from hostler.engine import BUILT_IN, find_policy
from hostler.sim.fill_experiment import run_fill_experiment
from hostler.sim.openb import openb_experiment
from hostler.sim.scenarios import Scenario, read_scenario, run_scenario
from hostler.sim.traces.openb import SEEDS, WORKLOADS

__all__ = ["run"]

PUBLISHED_S = 600  # one experiment, on two cores (README of the artifact)
PUBLISHED_ALL_H = 10  # all 1,020, on 256 cores
_NIGHT = Path(__file__).resolve().parent.parent / "demo/scenarios/night.yaml"
POLICIES = ("random", "dot_product", "gpu_clustering", "gpu_packing", "gpu_best_fit", "fgd")


def run(*, quick: bool = False, progress: Callable[[str], None] = lambda _: None) -> Report:
    """Measure everything and return the report."""
    load = os.getloadavg()
    progress("warming up (a first run compiles kernels)")
    run_fill_experiment(openb_experiment(), find_policy("fgd"), 42)
    run_scenario(_large(20, 200), find_policy("spread"), 1)
    rows = []
    for row in _rows(quick):
        progress(f"measured {row.name}")
        rows.append(row if quick else row.judged())
    return Report(
        bench="sim",
        quick=quick,
        runs_per_figure=QUICK_RUNS if quick else RUNS,
        machine=describe_machine(load),
        rows=tuple(rows),
    )


def _rows(quick: bool) -> Iterator[Row]:
    runs = QUICK_RUNS if quick else RUNS
    yield _experiment(runs)
    yield _all_experiments(quick)
    hosts, guests = (1_000, 20_000) if quick else (10_000, 1_000_000)
    yield from _scenario(hosts, guests, runs)
    yield _night(runs)
    yield _crowd(2_000 if quick else 100_000)
    yield _report(3 if quick else 100, runs)


def _experiment(runs: int) -> Row:
    seconds = []
    for _ in range(runs):
        experiment = openb_experiment()
        gc.collect()
        start = perf_counter()
        result = run_fill_experiment(experiment, find_policy("fgd"), 42)
        seconds.append(round(perf_counter() - start, 3))
    if result.gpu_milli_allocated != 5_919_410:
        raise RuntimeError("the experiment did not end as published")
    what = "one openb FGD experiment at 130 %, 10,866 arrivals, curves included"
    faster = f"{PUBLISHED_S / min(seconds):,.0f} times faster than the published simulator ({PUBLISHED_S} s)"
    return _seconds_row("experiment", what, seconds, 0.6, faster)


def _all_experiments(quick: bool) -> Row:
    """Run all experiments on two processes; a quick run takes one seed and one workload."""
    workloads, seeds = (WORKLOADS[:1], list(SEEDS)[:1]) if quick else (WORKLOADS, list(SEEDS))
    halves = [list(seeds[0::2]), list(seeds[1::2])] if len(seeds) > 1 else [list(seeds)]
    start = perf_counter()
    processes = [
        subprocess.Popen([sys.executable, "-m", "bench.sim", ",".join(workloads), ",".join(map(str, half))])
        for half in halves
    ]
    if any(process.wait() for process in processes):
        raise RuntimeError("an experiment failed")
    taken = round((perf_counter() - start) / 60, 2)
    count = len(workloads) * len(seeds) * len(POLICIES)
    return Row(
        name="all experiments",
        what=f"{count:,} openb experiments ({len(workloads)} workloads, 6 policies, {len(seeds)} seeds), 2 processes",
        unit="min",
        target=10.0,
        sense="at most",
        measured=taken,
        runs=(taken,),
        note=f"published: {PUBLISHED_ALL_H} hours on 256 cores for 1,020",
    )


def _half(workloads: list[str], seeds: list[int]) -> None:
    for workload in workloads:
        for seed in seeds:
            experiment = openb_experiment(workload, seed)
            for policy in POLICIES:
                run_fill_experiment(experiment, find_policy(policy), seed)


def _large(hosts: int, guests: int) -> Scenario:
    """Return a fleet that is nearly full: four sizes, a day's rhythm, half of the guests short-lived."""
    per_hour = hosts * 7.2
    part = guests // 4
    text = f"""
apiVersion: hostler/v1
kind: Scenario
name: large
hosts: [{{name: h, count: {hosts}, capacity: {{cpu: 64, memory: 256Gi, guests: 250}}}}]
arrivals:
- {{guest: {{name: a, requests: {{cpu: 1, memory: 4Gi}}}}, count: {part}, pattern: {{per_hour: {per_hour}}},
   duration: {{mean: 1h}}}}
- {{guest: {{name: b, requests: {{cpu: 2, memory: 8Gi}}}}, count: {part},
   pattern: {{kind: daily, per_hour: {per_hour}}}, duration: {{mean: 1h}}}}
- {{guest: {{name: c, requests: {{cpu: 4, memory: 8Gi}}}}, count: {part}, pattern: {{per_hour: {per_hour}}},
   duration: {{kind: lognormal, median: 30m}}}}
- {{guest: {{name: d, requests: {{cpu: 8, memory: 32Gi}}}}, count: {part}, pattern: {{per_hour: {per_hour}}},
   duration: {{kind: fixed, mean: 30m}}}}
queue: {{refused: drop}}
"""
    (document,) = parse_documents(text.encode(), "large.yaml")
    return read_scenario(document, BUILT_IN)


def _scenario(hosts: int, guests: int, runs: int) -> Iterator[Row]:
    seconds = []
    for _ in range(runs):
        gc.collect()
        start = perf_counter()
        outcome = run_scenario(_large(hosts, guests), find_policy("spread"), 1)
        seconds.append(round(perf_counter() - start, 2))
    what = f"{hosts:,} hosts, {outcome.guests:,} arrivals, {outcome.finished:,} departures, {outcome.dropped:,} dropped"
    note = f"cpu in use {outcome.cpu_mean:.1%} on average, {outcome.cpu_peak:.1%} at its peak"
    yield _seconds_row("scenario", f"{what}; reading and measuring included", seconds, 60.0, note)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Row(
        name="scenario, memory",
        what="resident memory of the process at its peak",
        unit="MB",
        target=2000.0,
        sense="at most",
        measured=round(memory),
        runs=(round(memory),),
    )


def _night(runs: int) -> Row:
    """Play the scenario of the demo: 1,336 guests that wait, form gangs, are evicted, and hosts that fail."""
    seconds = []
    for _ in range(runs):
        (document,) = read_documents([str(_NIGHT)])
        gc.collect()
        start = perf_counter()
        outcome = run_scenario(read_scenario(document, BUILT_IN), find_policy("kubernetes"), 1)
        seconds.append(round(perf_counter() - start, 3))
    what = f"demo/scenarios/night.yaml: {outcome.guests:,} guests, 160 gangs, {outcome.evictions:,} evictions"
    return _seconds_row("night", f"{what}, {outcome.host_failures:,} failed hosts", seconds, 1.0)


def _crowd(guests: int) -> Row:
    """Play guests of three priorities and gangs of eight that wait in a queue, once: it takes minutes."""
    hosts, gangs = guests // 200, guests // 100
    text = f"""
apiVersion: hostler/v1
kind: Scenario
name: crowd
hosts: [{{name: h, count: {hosts}, capacity: {{cpu: 32, memory: 128Gi, guests: 110}}}}]
arrivals:
- {{guest: {{name: web, requests: {{cpu: 2, memory: 4Gi}}, priority: 10}}, count: {guests * 45 // 100},
   pattern: {{kind: daily, per_hour: {hosts * 6}, peak: 14h, swing: 0.8}}, duration: {{mean: 1h}}}}
- {{guest: {{name: job, requests: {{cpu: 4, memory: 8Gi}}}}, count: {guests * 37 // 100},
   pattern: {{per_hour: {hosts * 5}}}, duration: {{mean: 1h}}}}
- {{guest: {{name: batch, requests: {{cpu: 4, memory: 8Gi}}}}, count: {gangs * 8}, gangs: {{size: 8}},
   pattern: {{kind: bursts, per_hour: {max(hosts * 8 // 60, 1)}, burst: 8}}, duration: {{mean: 2h}}}}
- {{guest: {{name: urgent, requests: {{cpu: 8, memory: 8Gi}}, priority: 100}}, count: {guests // 10},
   pattern: {{per_hour: {hosts * 1.3}}}, duration: {{kind: fixed, mean: 30m}}}}
queue: {{refused: wait, give_up_after: 12h}}
grace: 30s
"""
    (document,) = parse_documents(text.encode(), "crowd.yaml")
    scenario = read_scenario(document, BUILT_IN)
    gc.collect()
    start = perf_counter()
    outcome = run_scenario(scenario, find_policy("kubernetes"), 1)
    seconds = [round(perf_counter() - start, 2)]
    what = f"{hosts:,} hosts, {outcome.guests:,} guests, {gangs:,} gangs, {outcome.evictions:,} evictions"
    return _seconds_row("crowd", f"{what}; queue and priorities", seconds, 60.0)


def _report(shown: int, runs: int) -> Row:
    from hostler.sim.report import report_page

    results = [
        run_fill_experiment(
            openb_experiment("default", 42 + number % 3), find_policy(POLICIES[1 + number % 5]), 42 + number % 3
        )
        for number in range(min(shown, 15))
    ]
    several = [results[number % len(results)] for number in range(shown)]
    seconds = []
    for _ in range(runs):
        start = perf_counter()
        page = report_page(several)
        seconds.append(round(perf_counter() - start, 3))
    return _seconds_row("report", f"one HTML page on {shown} runs, {len(page) / 1e6:.1f} MB", seconds, 5.0)


def _seconds_row(name: str, what: str, seconds: list[float], target: float, note: str = "") -> Row:
    """Return how long the best run took."""
    return Row(
        name=name, what=what, unit="s", target=target, sense="at most", measured=min(seconds), runs=tuple(seconds),
        note=note,
    )  # fmt: skip


if __name__ == "__main__":
    _half(sys.argv[1].split(","), [int(seed) for seed in sys.argv[2].split(",")])
