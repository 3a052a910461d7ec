"""One arrival alone: from making the event to holding the action, when nothing else is queued."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

from bench.fleet import arrivals, choose_shapes, engine_with_hosts, spec, specs
from bench.results import Row
from bench.rows import latency_rows, median_and_p99
from bench.sizes import Sizes
from bench.throughput import SHAPES
from hostler.engine import Engine
from hostler.model import Guest, GuestArrived, GuestSpec

__all__ = ["decide_alone", "rows"]


def decide_alone(
    engine: Engine, numbers: Sequence[int], tag: str, make: Callable[[int], GuestSpec] = spec
) -> tuple[float, float]:
    """Return median and 99th percentile, in milliseconds, of guests that arrive and are decided one by one.

    Each brings a spec of its own, as one decoded from a message would be.
    """
    times = []
    for at, number in enumerate(numbers):
        start = perf_counter()
        guest = Guest(name=f"{tag}-{at}", uid=f"{tag}-{at}", spec=make(number))
        engine.apply(GuestArrived(guest=guest))
        actions = engine.step(engine.now + 1)
        times.append(perf_counter() - start)
        if len(actions) != 1:
            raise RuntimeError(f"{len(actions)} actions for one guest")
    return median_and_p99(times)


def rows(sizes: Sizes) -> Iterator[Row]:
    """Measure guests of known and of new shapes."""
    engine = engine_with_hosts(sizes.hosts, "spread")
    for event in arrivals(specs(SHAPES), choose_shapes(sizes.guests, SHAPES)):
        engine.apply(event)
    engine.step(1)
    gc.collect()
    known = [decide_alone(engine, choose_shapes(sizes.alone, SHAPES), f"known-{run}") for run in range(sizes.runs)]
    some = sizes.alone // 10
    new = [
        decide_alone(engine, range(first, first + some), f"new-{first}")
        for first in range(SHAPES, SHAPES + sizes.runs * some, some)
    ]
    fleet = f"one guest alone, {sizes.hosts:,} hosts with {sizes.guests:,} guests"
    yield from latency_rows("alone", f"{fleet}, {SHAPES} known shapes", known, (1.0, 5.0))
    yield from latency_rows("alone, new shape", f"{fleet}, each of a new shape", new, (None, None))
