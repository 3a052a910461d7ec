"""Decisions a second: equal and mixed guests, the published FGD experiment, with a journal, and as the fleet grows."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from time import perf_counter

import msgspec

from bench.fleet import arrivals, arrivals_as_columns, choose_shapes, engine_with_hosts, specs
from bench.results import Row
from bench.rows import rate_row
from bench.sizes import Sizes
from hostler.engine import Engine, find_policy
from hostler.engine.journals.journal import Recorder
from hostler.model import Guest, GuestArrived, HostsJoined
from hostler.queries import with_mixes
from hostler.sim.openb import openb_experiment

__all__ = ["SHAPES", "growth_rows", "rows", "warm_up"]

SHAPES = 200


def rows(sizes: Sizes) -> Iterator[Row]:
    """Measure batches of arrivals."""
    yield from _policy_rows(sizes)
    yield _openb_row(sizes)
    yield _journal_row(sizes)
    yield _columns_row(sizes)


def warm_up() -> None:
    """Compile or load the kernels."""
    for policy in ("spread", "pack", "least_loaded"):
        _decide_once(20, 200, 5, policy)
    _openb_once(50)


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


def _policy_rows(sizes: Sizes) -> Iterator[Row]:
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

        yield rate_row(name, f"{fleet}, {mixed}", sizes.guests, once, target, runs=sizes.runs)


def _openb_once(arriving: int | None) -> float:
    experiment = openb_experiment()
    specs = [experiment.specs[index] for index in experiment.order[:arriving].tolist()]
    engine = Engine(with_mixes([find_policy("fgd")], experiment.specs))
    engine.apply(HostsJoined(hosts=experiment.hosts))
    gc.collect()
    start = perf_counter()
    for at, spec in enumerate(specs):
        engine.apply(GuestArrived(guest=Guest(name=f"pod-{at}", uid=f"pod-{at}", spec=spec)))
    actions = engine.step(1)
    taken = perf_counter() - start
    if len(actions) != len(specs):
        raise RuntimeError(f"{len(actions)} actions for {len(specs)} arrivals")
    return taken


def _openb_row(sizes: Sizes) -> Row:
    experiment = openb_experiment()
    arriving = len(experiment.order) // sizes.openb_part
    what = f"openb default, {len(experiment.hosts):,} hosts, {arriving:,} pods"
    return rate_row("fgd openb", what, arriving, lambda: _openb_once(arriving), 20_000, runs=sizes.runs)


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
    row = rate_row("spread mixed, journal", what, sizes.guests, once, runs=sizes.runs)
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
    for _ in range(sizes.runs):
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


def growth_rows(sizes: Sizes) -> Iterator[Row]:
    """Compare the cost of a decision on a small and on a large fleet."""
    for name, shapes in (("growth equal", 1), ("growth mixed", SHAPES)):
        few, many = (
            [_decide_once(hosts, sizes.guests, shapes, "spread") for _ in range(sizes.runs)]
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
