"""Guests that look at each other: half of them spread over zones, keep apart or keep together, the rest are plain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import perf_counter

from bench.alone import decide_alone
from bench.fleet import ZONES, app_spec, arrivals, choose_shapes, engine_with_hosts, spec
from bench.results import Row
from bench.rows import latency_rows, rate_row
from bench.sizes import Sizes
from hostler.engine import Engine
from hostler.model import Bind, GuestSpec

__all__ = ["decide_once", "rows"]

APPS = 50  # and as many plain shapes
MANY_APPS = 200
POLICY = "kubernetes"


def rows(sizes: Sizes) -> Iterator[Row]:
    """Measure a batch, one guest after another on what it left, and a batch of many apps."""
    hosts, guests = sizes.hosts, sizes.constrained
    fleet = f"{hosts:,} hosts in {ZONES} zones, {guests:,} guests, half of"
    yield rate_row(
        "constraints", f"{fleet} {APPS} apps", guests, lambda: decide_once(hosts, guests)[0], 5_000, runs=sizes.runs
    )
    _, engine = decide_once(hosts, guests)
    gc.collect()
    choice = choose_shapes(sizes.alone, 2 * APPS)
    alone = [decide_alone(engine, choice, f"alone-{run}", lambda at: _make(at, APPS)) for run in range(sizes.runs)]
    yield from latency_rows("constraints alone", f"one guest alone, {fleet} {APPS} apps", alone, (None, 5.0))
    yield rate_row(
        "constraints, many apps",
        f"{fleet} {MANY_APPS} apps",
        guests,
        lambda: decide_once(hosts, guests, MANY_APPS)[0],
        runs=sizes.runs,
    )


def _make(number: int, apps: int) -> GuestSpec:
    return app_spec(number) if number < apps else spec(number - apps)


def decide_once(hosts: int, guests: int, apps: int = APPS) -> tuple[float, Engine]:
    """Return the seconds that a batch takes, and the engine after it."""
    engine = engine_with_hosts(hosts, POLICY, ZONES)
    known, choice = [_make(number, apps) for number in range(2 * apps)], choose_shapes(guests, 2 * apps)
    gc.collect()
    start = perf_counter()
    for event in arrivals(known, choice):
        engine.apply(event)
    actions = engine.step(1)
    taken = perf_counter() - start
    if sum(isinstance(action, Bind) for action in actions) != guests:
        raise RuntimeError("some guest was not placed")
    return taken, engine
