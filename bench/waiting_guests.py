"""Many guests that fit nowhere wait, while others that fit arrive in batches: how much of the throughput is left.

Every host runs a guest that is more important than those that wait, so that no eviction can make room for them, but
each of them has to find that out. Those that arrive are less important, and never stand in the way.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from time import perf_counter

from bench.fleet import HOSTNAME, ZONES, app_selector, arrivals, choose_shapes, engine_with_hosts, specs
from bench.results import Row
from bench.sizes import Sizes
from hostler.engine import Engine
from hostler.model import Bind, Defer, Guest, GuestArrived, GuestLeft, GuestSpec, GuestTerm, parse_amounts

__all__ = ["rows", "warm_up"]

SECOND_NS = 1_000_000_000
ARRIVING_SHAPES = 50
_NOBODY = -1  # an app without guests
_WAITING_PRIORITY, _HIGHEST = 5, 10


def rows(sizes: Sizes) -> Iterator[Row]:
    """Measure with equal guests waiting, with many shapes, with others leaving meanwhile, and with constraints."""
    base = _fleet(sizes.hosts)
    mixed = f"{sizes.waiting:,} waiting, {sizes.waiting_shapes:,} shapes"

    clogged, refused = _clogged(base, _too_large, 1, sizes.waiting)
    what = f"{sizes.waiting:,} waiting, equal"
    yield _share_row("waiting equal", what, base, clogged, sizes, sizes.arriving)
    yield _refused_row("waiting equal", what, refused)

    clogged, refused = _clogged(base, _too_large, sizes.waiting_shapes, sizes.waiting)
    yield _share_row("waiting mixed", mixed, base, clogged, sizes, sizes.arriving)
    what = f"{mixed}, others leave"
    yield _share_row("waiting mixed, leaving", what, base, clogged, sizes, sizes.arriving, leave=True)
    yield _refused_row("waiting mixed", mixed, refused)

    clogged, refused = _clogged(base, _lonely, sizes.waiting_shapes, sizes.waiting)
    what = f"{mixed}, for other guests"
    yield _share_row("waiting for guests", what, base, clogged, sizes, sizes.few_arriving)
    leaving = f"{what}, others leave"
    yield _share_row("waiting for guests, leaving", leaving, base, clogged, sizes, sizes.few_arriving, leave=True)
    yield _refused_row("waiting for guests", what, refused)


def warm_up() -> None:
    """Compile or load the kernels."""
    base = _fleet(5)
    for make in (_too_large, _lonely):
        _feed(_clogged(base, make, 2, 4)[0], 20, 10, leave=True)


def _share_row(
    name: str, what: str, free: Engine, clogged: Engine, sizes: Sizes, arriving: int, *, leave: bool = False
) -> Row:
    """Compare the throughput on both, in turns, so that both see the same machine."""
    batch = sizes.batch
    without, beside = [], []
    for _ in range(sizes.runs):
        without.append(_feed(free.fork(), arriving, batch, leave=leave))
        beside.append(_feed(clogged.fork(), arriving, batch, leave=leave))
    return Row(
        name=name,
        what=f"{arriving:,} arrivals, {batch} at a time, throughput with / without {what}",
        unit="x",
        target=0.5,
        measured=round(min(without) / min(beside), 4),
        runs=tuple(round(w / b, 4) for w, b in zip(sorted(without), sorted(beside), strict=True)),
        note=f"{arriving / min(without):,.0f}/s without, {arriving / min(beside):,.0f}/s with",
    )


def _refused_row(name: str, what: str, rate: float) -> Row:
    """Say how long it took to find out that they fit nowhere; measured once."""
    return Row(
        name=f"{name}, refused", what=f"{what}: refused for the first time", unit="/s", measured=rate, runs=(rate,)
    )


def _fleet(hosts: int) -> Engine:
    """Return hosts that each run a guest that cannot be evicted."""
    engine = engine_with_hosts(hosts, "kubernetes", ZONES)
    pinned = GuestSpec(requests=parse_amounts({"cpu": 8, "memory": "8Gi"}), priority=_HIGHEST)
    for at in range(hosts):
        uid = f"pinned-{at}"
        engine.apply(GuestArrived(guest=Guest(name=uid, uid=uid, spec=pinned, host=f"host-{at:05d}")))
    engine.step(SECOND_NS)
    return engine


def _too_large(number: int) -> GuestSpec:
    """Return a guest that asks for more cpu than is left beside the pinned one."""
    requests = parse_amounts({"cpu": 60, "memory": f"{1000 + number}Mi"})
    return GuestSpec(requests=requests, priority=_WAITING_PRIORITY)


def _lonely(number: int) -> GuestSpec:
    """Return a guest that must be near a guest that never arrives."""
    requests = parse_amounts({"cpu": 1, "memory": f"{1000 + number}Mi"})
    near = (GuestTerm(HOSTNAME, app_selector(_NOBODY)),)
    return GuestSpec(requests=requests, priority=_WAITING_PRIORITY, affinity=near)


def _clogged(base: Engine, make: Callable[[int], GuestSpec], shapes: int, waiting: int) -> tuple[Engine, float]:
    """Return a twin with guests that wait, and how many of them were refused in a second."""
    engine = base.fork()
    known = [make(number) for number in range(shapes)]
    start = perf_counter()
    for event in arrivals(known, choose_shapes(waiting, shapes), "waiting"):
        engine.apply(event)
    actions = engine.step(engine.now + SECOND_NS)
    taken = perf_counter() - start
    if sum(isinstance(action, Defer) for action in actions) != waiting or len(actions) != waiting:
        raise RuntimeError("a guest was placed or evicted that should wait")
    return engine, round(waiting / taken, 1)


def _feed(engine: Engine, arriving: int, batch: int, *, leave: bool) -> float:
    """Return the seconds that it takes to place so many arrivals, a batch a second; each may leave in the next."""
    known, choice = specs(ARRIVING_SHAPES), choose_shapes(arriving, ARRIVING_SHAPES)
    placed = 0
    before: list[str] = []
    gc.collect()
    start = perf_counter()
    for first in range(0, arriving, batch):
        for event in arrivals(known, choice[first : first + batch], f"arriving-{first}"):
            engine.apply(event)
        for uid in before:
            engine.apply(GuestLeft(uid=uid))
        binds = [action.uid for action in engine.step(engine.now + SECOND_NS) if isinstance(action, Bind)]
        placed += len(binds)
        before = binds if leave else []
    taken = perf_counter() - start
    if placed != arriving:
        raise RuntimeError(f"{placed} of {arriving} were placed")
    return taken
