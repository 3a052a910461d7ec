"""What the engine costs: all rows of ``python -m bench engine``, subject by subject.

Everything goes through ``apply`` and ``step``, with the events made inside the measured time and the actions kept.
Each figure is the best of three runs on a new engine; kernels are compiled before the first of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from bench import alone, constraints, gangs, large_state, preemption, throughput, waiting_guests
from bench.results import Report, Row, describe_machine
from bench.sizes import Sizes

__all__ = ["run"]


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
    return Report(
        bench="engine", quick=quick, runs_per_figure=sizes.runs, machine=describe_machine(load), rows=tuple(rows)
    )


def _rows(sizes: Sizes) -> Iterator[Row]:
    yield from throughput.rows(sizes)
    yield from alone.rows(sizes)
    yield from throughput.growth_rows(sizes)
    yield from constraints.rows(sizes)
    yield from preemption.rows(sizes)
    yield from gangs.rows(sizes)
    yield from waiting_guests.rows(sizes)
    yield from large_state.rows(sizes)


def _warm_up() -> None:
    """Compile or load every kernel that is measured."""
    throughput.warm_up()
    large_state.measure(20, 100)
    constraints.decide_once(20, 200)
    preemption.warm_up()
    gangs.decide_once(20, 10, "")
    waiting_guests.warm_up()
