"""Guests that look at each other: half of them spread over zones, keep apart or keep together, the rest are plain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import perf_counter

from bench.alone import decide_alone
from bench.fleet import ZONES, app_spec, arrivals, choose_shapes, engine_with_hosts, spec
from bench.results import Row
from bench.rows import RUNS, latency_rows, rate_row
from bench.sizes import Sizes
from hostler.engine import Engine
from hostler.model import Bind, GuestSpec

__all__ = ["decide_once", "rows"]

APPS = 50
PLAIN = 50
POLICY = "kubernetes"


def rows(sizes: Sizes) -> Iterator[Row]:
    """Measure a batch, and then one guest after another on what it left."""
    fleet = f"{sizes.hosts:,} hosts in {ZONES} zones, {sizes.constrained:,} guests, half of {APPS} apps"
    yield rate_row(
        "constraints", fleet, sizes.constrained, lambda: decide_once(sizes.hosts, sizes.constrained)[0], 5_000
    )
    _, engine = decide_once(sizes.hosts, sizes.constrained)
    gc.collect()
    choice = choose_shapes(sizes.alone, APPS + PLAIN)
    alone = [decide_alone(engine, choice, f"alone-{run}", _make) for run in range(RUNS)]
    yield from latency_rows("constraints alone", f"one guest alone, {fleet}", alone, (None, 5.0))


def _make(number: int) -> GuestSpec:
    return app_spec(number) if number < APPS else spec(number - APPS)


def decide_once(hosts: int, guests: int) -> tuple[float, Engine]:
    """Return the seconds that a batch takes, and the engine after it."""
    engine = engine_with_hosts(hosts, POLICY, ZONES)
    known, choice = [_make(number) for number in range(APPS + PLAIN)], choose_shapes(guests, APPS + PLAIN)
    gc.collect()
    start = perf_counter()
    for event in arrivals(known, choice):
        engine.apply(event)
    actions = engine.step(1)
    taken = perf_counter() - start
    if sum(isinstance(action, Bind) for action in actions) != guests:
        raise RuntimeError("some guest was not placed")
    return taken, engine
