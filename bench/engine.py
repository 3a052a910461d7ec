"""What the engine costs: decisions a second, one arrival alone, growth with the fleet, memory, fork, journal.

Everything goes through ``apply`` and ``step``, with the events made inside the measured time and the actions kept.
Each figure is the best of three runs on a new engine; kernels are compiled before the first of them.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

import msgspec

from bench.fleet import arrivals, arrivals_as_columns, choose_shapes, engine_with_hosts, spec, specs
from bench.large_state import measure as measure_large_state
from bench.openb import read_workload
from bench.results import Report, Row, describe_machine
from hostler.engine import Engine
from hostler.engine.journal import Recorder
from hostler.model import Guest, GuestArrived, HostsJoined

__all__ = ["RUNS", "run"]

RUNS = 3
SHAPES = 200
_ROOT = Path(__file__).resolve().parent.parent

Timed = Callable[[], float]


class Sizes(msgspec.Struct, frozen=True):
    """How much is measured; a quick run takes a tenth of everything."""

    hosts: int = 5_000
    guests: int = 50_000
    alone: int = 2_000
    few_hosts: int = 1_000
    many_hosts: int = 20_000
    large_guests: int = 150_000
    openb_part: int = 1  # one in so many arrivals

    def tenth(self) -> Sizes:
        """Return a tenth of everything."""
        whole = msgspec.structs.asdict(self)
        return Sizes(**{name: value // 10 for name, value in whole.items() if name != "openb_part"}, openb_part=10)


def run(*, quick: bool = False, progress: Callable[[str], None] = lambda _: None) -> Report:
    """Measure everything and return the report."""
    load = os.getloadavg()
    sizes = Sizes().tenth() if quick else Sizes()
    progress("warming up (a first run compiles kernels)")
    _warm_up()
    rows = []
    for row in _rows(sizes):
        progress(f"measured {row.name}")
        rows.append(row if quick else row.judged())
    return Report(bench="engine", quick=quick, runs_per_figure=RUNS, machine=describe_machine(load), rows=tuple(rows))


def _rows(sizes: Sizes) -> Iterator[Row]:
    yield from _throughput_rows(sizes)
    yield _openb_row(sizes)
    yield _journal_row(sizes)
    yield _columns_row(sizes)
    yield from _alone_rows(sizes)
    yield from _growth_rows(sizes)
    yield from _large_rows(sizes)


def _warm_up() -> None:
    """Compile or load every kernel that is measured."""
    for policy in ("spread", "pack", "least_loaded"):
        _decide_once(20, 200, 5, policy)
    _openb_once("default", 50)
    measure_large_state(20, 100)


# -- throughput ------------------------------------------------------------------------------------------------------


def _decide_once(
    hosts: int, guests: int, shapes: int, policy: str, record: Callable[[Engine], Recorder] | None = None
) -> float:
    """Return the seconds that it takes to make, apply and decide so many arrivals."""
    engine = engine_with_hosts(hosts, policy)
    driver = record(engine) if record else engine
    known, choice = specs(shapes), choose_shapes(guests, shapes)
    gc.collect()
    start = perf_counter()
    apply = driver.apply
    for event in arrivals(known, choice):
        apply(event)
    actions = driver.step(1)
    taken = perf_counter() - start
    if len(actions) != guests:
        raise RuntimeError(f"{len(actions)} actions for {guests} guests")
    return taken


def _rate_row(name: str, what: str, decisions: int, once: Timed, target: float | None = None, note: str = "") -> Row:
    rates = tuple(round(decisions / once(), 1) for _ in range(RUNS))
    return Row(name=name, what=what, unit="/s", target=target, measured=max(rates), runs=rates, note=note)


def _throughput_rows(sizes: Sizes) -> Iterator[Row]:
    fleet = f"{sizes.hosts:,} hosts, {sizes.guests:,} guests"
    for policy, shapes, target in (
        ("spread", 1, 50_000),
        ("spread", SHAPES, 20_000),
        ("pack", 1, None),
        ("pack", SHAPES, None),
        ("least_loaded", 1, None),
        ("least_loaded", SHAPES, None),
    ):
        mixed = "equal" if shapes == 1 else f"{shapes} shapes in random order"
        name = f"{policy} {'equal' if shapes == 1 else 'mixed'}"

        def once(policy: str = policy, shapes: int = shapes) -> float:
            return _decide_once(sizes.hosts, sizes.guests, shapes, policy)

        yield _rate_row(name, f"{fleet}, {mixed}", sizes.guests, once, target)


def _openb_once(name: str, arriving: int | None) -> float:
    workload = read_workload(name)
    workload = workload._replace(order=workload.order[:arriving])
    engine = Engine([workload.policy("fgd")])
    engine.apply(HostsJoined(hosts=workload.hosts))
    gc.collect()
    start = perf_counter()
    for event in workload.events():
        engine.apply(event)
    actions = engine.step(1)
    taken = perf_counter() - start
    if len(actions) != len(workload.order):
        raise RuntimeError(f"{len(actions)} actions for {len(workload.order)} arrivals")
    return taken


def _openb_row(sizes: Sizes) -> Row:
    workload = read_workload()
    arriving = len(workload.order) // sizes.openb_part
    what = f"openb default, {len(workload.hosts):,} hosts, {arriving:,} pods"
    return _rate_row("fgd openb", what, arriving, lambda: _openb_once("default", arriving), 20_000)


def _journal_row(sizes: Sizes) -> Row:
    """Measure the mixed case with a journal kept in memory."""
    written: list[bytes] = []

    def record(engine: Engine) -> Recorder:
        recorder = Recorder(engine, written.append)
        written.clear()  # the header with the hosts is not part of the cost of a decision
        return recorder

    def once() -> float:
        return _decide_once(sizes.hosts, sizes.guests, SHAPES, "spread", record)

    what = "as spread mixed, with every fact and action written to memory"
    row = _rate_row("spread mixed, journal", what, sizes.guests, once)
    size = sum(map(len, written)) / sizes.guests
    return msgspec.structs.replace(row, note=f"{size:.0f} bytes of journal per decision")


def _columns_row(sizes: Sizes) -> Row:
    """Compare one event for all guests with one event per guest, made and applied, not decided."""
    known, choice = specs(SHAPES), choose_shapes(sizes.guests, SHAPES)

    def one_by_one(engine: Engine) -> None:
        for event in arrivals(known, choice):
            engine.apply(event)

    def as_columns(engine: Engine) -> None:
        engine.apply_many(arrivals_as_columns(known, choice))

    ratios = []
    for _ in range(RUNS):
        times = []
        for feed in (one_by_one, as_columns):
            engine = engine_with_hosts(10, "spread")
            gc.collect()
            start = perf_counter()
            feed(engine)
            times.append(perf_counter() - start)
        ratios.append(round(times[0] / times[1], 3))
    what = f"apply / apply_many of {sizes.guests:,} arrivals"
    return Row(name="columns", what=what, unit="x", measured=max(ratios), runs=tuple(ratios))


# -- one arrival alone -----------------------------------------------------------------------------------------------


def _alone_once(engine: Engine, numbers: Sequence[int], tag: str) -> tuple[float, float]:
    """Return median and 99th percentile, in milliseconds, of guests that arrive and are decided one by one.

    Each brings a spec of its own, as one decoded from a message would be.
    """
    times = []
    for at, number in enumerate(numbers):
        start = perf_counter()
        guest = Guest(name=f"{tag}-{at}", uid=f"{tag}-{at}", spec=spec(number))
        engine.apply(GuestArrived(guest=guest))
        actions = engine.step(engine.now + 1)
        times.append(perf_counter() - start)
        if len(actions) != 1:
            raise RuntimeError(f"{len(actions)} actions for one guest")
    times.sort()
    return 1000 * times[len(times) // 2], 1000 * times[int(len(times) * 0.99)]


def _alone_rows(sizes: Sizes) -> Iterator[Row]:
    engine = engine_with_hosts(sizes.hosts, "spread")
    for event in arrivals(specs(SHAPES), choose_shapes(sizes.guests, SHAPES)):
        engine.apply(event)
    engine.step(1)
    gc.collect()
    known = [_alone_once(engine, choose_shapes(sizes.alone, SHAPES), f"known-{run}") for run in range(RUNS)]
    some = sizes.alone // 10
    new = [
        _alone_once(engine, range(first, first + some), f"new-{first}")
        for first in range(SHAPES, SHAPES + RUNS * some, some)
    ]
    fleet = f"one guest alone, {sizes.hosts:,} hosts with {sizes.guests:,} guests"
    yield from _latency_rows("alone", f"{fleet}, {SHAPES} known shapes", known, (1.0, 5.0))
    yield from _latency_rows("alone, new shape", f"{fleet}, each of a new shape", new, (None, None))


def _latency_rows(
    name: str, what: str, figures: Sequence[tuple[float, float]], targets: tuple[float | None, float | None]
) -> Iterator[Row]:
    for part, label in enumerate(("median", "p99")):
        runs = tuple(round(figure[part], 4) for figure in figures)
        yield Row(
            name=f"{name} {label}",
            what=what,
            unit="ms",
            target=targets[part],
            sense="at most",
            measured=min(runs),
            runs=runs,
        )


# -- size ------------------------------------------------------------------------------------------------------------


def _growth_rows(sizes: Sizes) -> Iterator[Row]:
    """Compare the cost of a decision on a small and on a large fleet."""
    for name, shapes in (("growth equal", 1), ("growth mixed", SHAPES)):
        few, many = (
            [_decide_once(hosts, sizes.guests, shapes, "spread") for _ in range(RUNS)]
            for hosts in (sizes.few_hosts, sizes.many_hosts)
        )
        kind = "equal guests" if shapes == 1 else f"guests of {shapes} shapes"
        yield Row(
            name=name,
            what=f"cost of a decision, {sizes.many_hosts:,} / {sizes.few_hosts:,} hosts, {sizes.guests:,} {kind}",
            unit="x",
            target=4.0,
            sense="at most",
            measured=round(min(many) / min(few), 3),
            runs=tuple(round(m / f, 3) for m, f in zip(sorted(many), sorted(few), strict=True)),
        )


def _large_rows(sizes: Sizes) -> Iterator[Row]:
    figures = [_large_once(sizes) for _ in range(RUNS)]
    fleet = f"{sizes.hosts:,} hosts with {sizes.large_guests:,} guests"
    for key, name, what, unit, target in (
        ("peak_mb", "memory, peak", "resident at the peak, actions kept", "MB", 1000.0),
        ("resident_mb", "memory, after", "resident after the actions are gone", "MB", None),
        ("fork_ms", "fork", "an independent twin", "ms", 50.0),
        ("checkpoint_ms", "checkpoint", "all state to bytes", "ms", None),
        ("restore_ms", "restore", "an engine from those bytes", "ms", None),
        ("checkpoint_mb", "checkpoint size", "bytes of it", "MB", None),
    ):
        runs = tuple(round(figure[key], 3) for figure in figures)
        yield Row(
            name=name,
            what=f"{fleet}: {what}",
            unit=unit,
            target=target,
            sense="at most",
            measured=min(runs),
            runs=runs,
        )


def _large_once(sizes: Sizes) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.large_state", str(sizes.hosts), str(sizes.large_guests)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the measurement of a large state failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
