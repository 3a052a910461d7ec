"""Compare Hostler with kube-scheduler, in turn, on the same machine in the same run: ``python -m bench kube``.

etcd and the API server are fresh each time, without kwok and controllers. Both schedulers are users at the same
priority level of API fairness. An independent watcher measures both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

from bench.kube.contests import Burst, Steady, burst, mixed, steady
from bench.kube.field import OURS, THEIRS
from bench.kube.objects import MIXES
from bench.results import Report, Row, describe_machine

__all__ = ["run"]

Progress = Callable[[str], None]

_CONTESTS = 5  # the machine's speed changes from minute to minute: the median of several pairs counts


def run(*, quick: bool = False, progress: Progress = lambda _: None) -> Report:
    """Measure everything and return the report."""
    load = os.getloadavg()
    progress("warming up (a first run compiles kernels)")
    subprocess.run(
        [sys.executable, "-m", "hostler", "place", "-f", "demo/fleet.yaml", "-f", "demo/guests.yaml"],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    rows = []
    for row in _rows(quick, progress):
        progress(f"measured {row.name}")
        rows.append(row if quick else row.judged())
    return Report(bench="kube", quick=quick, runs_per_figure=1, machine=describe_machine(load), rows=tuple(rows))


def _rows(quick: bool, progress: Progress) -> Iterator[Row]:
    nodes, pods = (500, 1000) if quick else (5000, 10_000)
    pairs: list[tuple[Burst, Burst]] = []
    for number in range(1 if quick else _CONTESTS):
        results: dict[str, Burst] = {}
        for which in (THEIRS, OURS):
            progress(f"{which}: {pods:,} pods on {nodes:,} nodes, contest {number + 1}")
            results[which] = burst(which, nodes, pods)
            progress(_said(results[which]))
        pairs.append((results[OURS], results[THEIRS]))
    yield from _burst_rows(pairs, nodes, pods)
    seconds = 5 if quick else 30
    waits: dict[str, Steady] = {}
    for which in (THEIRS, OURS):
        progress(f"{which}: 100 pods/s for {seconds} s")
        waits[which] = steady(which, nodes, 100, seconds)
    yield from _steady_rows(waits[OURS], waits[THEIRS])
    for mix in MIXES[:1] if quick else MIXES:
        pair = {}
        for which in (THEIRS, OURS):
            progress(f"{which}: {mix.name}")
            pair[which] = mixed(which, mix)
            progress(_said(pair[which]))
        ours, theirs = pair[OURS], pair[THEIRS]
        yield Row(
            name=mix.name,
            what=f"{mix.what}: {mix.pods:,} pods on {mix.nodes:,} nodes, ours to theirs, to the last bind",
            unit="x",
            measured=round(ours.pods_per_s / theirs.pods_per_s, 2),
            note=f"{_rates(ours)}; kube-scheduler {_rates(theirs)}",
        )


def _burst_rows(pairs: list[tuple[Burst, Burst]], nodes: int, pods: int) -> Iterator[Row]:
    size = f"{pods:,} pods on {nodes:,} nodes"
    binds = sorted(round(ours.pods_per_s / theirs.pods_per_s, 2) for ours, theirs in pairs)
    events = sorted(round(ours.told_per_s / theirs.told_per_s, 2) for ours, theirs in pairs)
    ours, theirs = sorted(pairs, key=lambda pair: pair[0].pods_per_s / pair[1].pods_per_s)[len(pairs) // 2]
    yield Row(
        name="last bind",
        what=f"{size}: pods/s to the last bind, ours to theirs",
        unit="x",
        target=3.0,
        measured=binds[len(binds) // 2],
        note=f"of {_listed(binds)}; {_said(ours)}; {_said(theirs)}",
    )
    yield Row(
        name="last event",
        what=f"{size}: pods/s to the last event, ours to theirs",
        unit="x",
        target=1.5,
        measured=events[len(events) // 2],
        note=f"of {_listed(events)}; {ours.told_per_s:.0f}/s and {theirs.told_per_s:.0f}/s",
    )
    yield Row(
        name="memory",
        what="resident memory of our scheduler at its peak",
        unit="MB",
        target=500,
        sense="at most",
        measured=round(max(ours.cost.memory_mb for ours, _ in pairs)),
        note=f"kube-scheduler {theirs.cost.memory_mb:.0f} MB",
    )
    yield Row(
        name="first bind",
        what="from the start of our process",
        unit="s",
        measured=round(ours.first_bind_s, 2),
        note=f"kube-scheduler {theirs.first_bind_s:.2f} s",
    )


def _steady_rows(ours: Steady, theirs: Steady) -> Iterator[Row]:
    what = "100 pods/s, from the answer to the POST to the node being seen"
    yield Row(
        name="steady p50",
        what=f"{what}: median, ours to theirs",
        unit="x",
        target=1.0,
        sense="at most",
        measured=round(ours.p50_ms / theirs.p50_ms, 3),
        note=f"{ours.p50_ms:.1f} ms and {theirs.p50_ms:.1f} ms",
    )
    yield Row(
        name="steady p99",
        what=f"{what}: 99th percentile, ours to theirs",
        unit="x",
        target=1.0,
        sense="at most",
        measured=round(ours.p99_ms / theirs.p99_ms, 3),
        note=f"{ours.p99_ms:.1f} and {theirs.p99_ms:.1f} ms; {ours.missing} and {theirs.missing} missing",
    )
    yield Row(
        name="steady p99, absolute",
        what=f"{what}: 99th percentile",
        unit="ms",
        target=100,
        sense="at most",
        measured=round(ours.p99_ms, 1),
    )


def _listed(ratios: list[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


def _rates(result: Burst) -> str:
    missing = result.pods - result.bound
    return f"{result.pods_per_s:.0f}/s{f', {missing} of {result.pods} not bound' if missing else ''}"


def _said(result: Burst) -> str:
    cost = result.cost
    return (
        f"{result.which} {_rates(result)} to the last bind ({result.last_bind_s:.1f} s), first after "
        f"{result.first_bind_s:.1f} s, last event after {result.last_event_s:.1f} s, {cost.cpu_s:.1f} s CPU, "
        f"{cost.memory_mb:.0f} MB, server {result.server_cpu_s:.1f} s CPU, {result.calls:,} calls"
    )
