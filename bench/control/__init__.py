"""The control plane under load: ``python -m bench control``.

The service, a fleet of fake hosts and the clients are three processes that share the machine. The service answers a
create when it is on disk; its leader places meanwhile, and agents carry it out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from bench.control.clients import CallTimes, as_fast_as_possible, paced, until_running
from bench.control.deaths import starting, taking_over
from bench.control.neighbors import beside_a_loud_tenant
from bench.control.processes import PATIENCE_S, ControlPlaneProcess, open_control_plane, postgres_url
from bench.results import Report, Row, describe_machine

__all__ = ["PARTS", "latencies", "run", "throughput"]

Progress = Callable[[str], None]
PARTS = ("sqlite", "postgresql", "neighbor", "deaths")
_CLIENTS = 64


def run(*, quick: bool = False, progress: Progress = lambda _: None, only: str = "") -> Report:
    """Measure everything, or only one of ``PARTS``, and return the report."""
    load = os.getloadavg()
    found = (row for part in ([only] if only else PARTS) for row in _rows(part, quick, progress))
    rows = [row if quick and not row.spoiled else row.judged() for row in found]
    return Report(bench="control", quick=quick, runs_per_figure=1, machine=describe_machine(load), rows=tuple(rows))


def _rows(part: str, quick: bool, progress: Progress) -> Iterator[Row]:
    hosts, seconds = (50, 2.0) if quick else (1000, 10.0)
    if part == "sqlite":
        progress(f"SQLite, {hosts:,} hosts")
        with open_control_plane(hosts, progress=progress) as control_plane:
            yield _idle(control_plane, hosts, seconds, progress)
            yield from latencies(control_plane, hosts, seconds, progress)
            yield throughput(control_plane, "SQLite", 300, hosts, seconds, progress)
    elif part == "postgresql":
        progress(f"PostgreSQL, {hosts:,} hosts")
        with postgres_url() as url, open_control_plane(hosts, database_url=url, progress=progress) as control_plane:
            yield throughput(control_plane, "PostgreSQL", 500, hosts, seconds, progress)
    elif part == "neighbor":
        progress(f"SQLite, {hosts:,} hosts, rates limited")
        with open_control_plane(hosts, is_limited=True, progress=progress) as control_plane:
            # Twice 480 creates: of fewer, the 99th percentile is the second worst one.
            yield beside_a_loud_tenant(control_plane, 12 * seconds, progress)
    elif not quick:
        yield starting(progress)
        yield taking_over(progress)


def _idle(control_plane: ControlPlaneProcess, hosts: int, seconds: float, progress: Progress) -> Row:
    progress("agents that only report")
    before, began = control_plane.service_cpu_s(), time.perf_counter()
    time.sleep(2 * seconds)
    share = 100 * (control_plane.service_cpu_s() - before) / (time.perf_counter() - began)
    return Row(
        name="agents",
        what=f"{hosts:,} agents that report every 5 s: the service's share of one core",
        unit="%",
        target=20,
        sense="at most",
        measured=round(share, 1),
    )


def latencies(control_plane: ControlPlaneProcess, hosts: int, seconds: float, progress: Progress) -> Iterator[Row]:
    """Measure how long people wait for an answer, and for a VM that runs."""
    progress("one VM at a time, until it runs")
    waits = until_running(control_plane, count=20 if hosts < 100 else 100)
    yield Row(
        name="reaches its agent",
        what="from the request until the VM runs and its agent has said so: median, one at a time",
        unit="ms",
        target=100,
        sense="at most",
        measured=round(waits.percentile(50), 1),
        note=f"p99 {waits.percentile(99):.0f} ms",
        spoiled=waits.spoiled,
    )
    progress("100 creates a second")
    times = [
        paced(control_plane, rate=100, seconds=seconds, name=f"paced-{which}")
        for which in range(1 if hosts < 100 else 3)
    ]
    steady = sorted(times, key=lambda one: one.percentile(99))[len(times) // 2]
    yield Row(
        name="paced p99",
        what="creates at a paced 100/s: 99th percentile until the answer, median of three times",
        unit="ms",
        target=50,
        sense="at most",
        measured=round(steady.percentile(99), 1),
        note=(
            f"p50 {steady.percentile(50):.1f} ms, {steady.failed} of {steady.count} failed; 99th percentiles of "
            f"{', '.join(f'{one.percentile(99):.1f}' for one in times)}"
        ),
        spoiled="; ".join(one.spoiled for one in times if one.spoiled),
    )


def throughput(
    control_plane: ControlPlaneProcess,
    database: str,
    target: float,
    hosts: int,
    seconds: float,
    progress: Progress,
    *,
    patience_s: float = PATIENCE_S,
) -> Row:
    """Measure how many creates are answered in a second; all of them must be placed in the end."""
    progress(f"{_CLIENTS} clients as fast as they can")
    before = control_plane.service_cpu_s()
    done: CallTimes = as_fast_as_possible(control_plane, clients=_CLIENTS, seconds=seconds)
    spent = control_plane.service_cpu_s() - before
    placed = control_plane.wait_until_placed(patience_s=patience_s)
    unplaced = f"not all of them were placed {patience_s:.0f} s after the last answer" if placed is None else ""
    return Row(
        name=f"creates, {database}",
        what=f"{_CLIENTS} closed-loop clients, {hosts:,} hosts: creates answered in a second",
        unit="/s",
        target=target,
        measured=round(done.per_second, 1),
        note=(
            f"p50 {done.percentile(50):.0f} ms, p99 {done.percentile(99):.0f} ms, {done.failed} failed, the service "
            f"took {spent / done.count * 1000:.2f} ms CPU each"
            + ("" if placed is None else f", all placed {placed:.1f} s after the last answer")
        ),
        spoiled="; ".join(why for why in (done.spoiled, unplaced) if why),
    )
