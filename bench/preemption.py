"""Preemptions on a full fleet: a guest of higher priority comes, victims leave at once, the guest is bound.

Every host is full with eight guests of five priorities. A preemptor needs the room of two of them, or of one where an
earlier preemption left some.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from random import Random
from time import perf_counter

import msgspec

from bench.fleet import HOSTNAME, ZONES, app_labels, app_selector, engine_with_hosts
from bench.results import Row
from bench.rows import rate_row
from bench.sizes import Sizes
from hostler.engine import Engine
from hostler.model import (
    Action,
    Bind,
    Budget,
    BudgetChanged,
    Evict,
    Guest,
    GuestArrived,
    GuestBound,
    GuestLeft,
    GuestSpec,
    GuestTerm,
    parse_amounts,
)

__all__ = ["rows", "warm_up"]

LONG_S = 20.0  # one by one: after this time the rest is reckoned to take as long as those before it
PER_HOST = 8
PRIORITIES = 5
SHAPES = 10
_LOW, _HIGH = 0, 1  # apps, so that budgets and constraints can name them


def rows(sizes: Sizes) -> Iterator[Row]:
    """Measure preemptors of one and of several shapes, one by one and together, under a budget and with constraints."""
    full = _full_fleet(sizes.hosts)
    fleet = f"{sizes.hosts:,} full hosts, {sizes.preemptors:,} preemptors"
    few = f"{sizes.hosts:,} full hosts, {sizes.few_preemptors:,} preemptors"
    for name, what, specs, count, together, target in (
        ("preemption", f"{fleet}, equal, one by one", _preemptors(1), sizes.preemptors, False, 200),
        ("preemption, batch", f"{fleet}, equal, all at once", _preemptors(1), sizes.preemptors, True, 200),
        ("preemption, mixed", f"{fleet}, {SHAPES} shapes", _preemptors(SHAPES), sizes.preemptors, False, 200),
        ("preemption, constraints", f"{fleet}, one a host", _apart(), sizes.preemptors, False, 100),
        ("preemption, budget", f"{few}, victims in a budget", _preemptors(1), sizes.few_preemptors, False, None),
    ):
        budget = name.endswith("budget")

        def once(
            specs: Sequence[GuestSpec] = specs, count: int = count, together: bool = together, budget: bool = budget
        ) -> float:
            return _preempt(full, specs, count, together=together, budget=budget)

        yield rate_row(name, what, count, once, target, runs=sizes.runs)


def warm_up() -> None:
    """Compile or load the kernels."""
    _preempt(_full_fleet(5), _apart(), 2, together=False, budget=True)


def _full_fleet(hosts: int) -> Engine:
    engine = engine_with_hosts(hosts, "kubernetes", ZONES)
    random = Random(1)
    size = parse_amounts({"cpu": 8, "memory": "16Gi"})
    low = [GuestSpec(requests=size, priority=priority, labels=app_labels(_LOW)) for priority in range(PRIORITIES)]
    for at in range(hosts * PER_HOST):
        uid, host = f"low-{at}", f"host-{at // PER_HOST:05d}"
        spec, started = low[random.randrange(PRIORITIES)], 1 + random.randrange(1_000_000)
        engine.apply(GuestArrived(guest=Guest(name=uid, uid=uid, spec=spec, host=host, started=started)))
    engine.step(1)
    return engine


def _preemptors(shapes: int) -> list[GuestSpec]:
    return [
        GuestSpec(
            requests=parse_amounts({"cpu": 10, "memory": f"{8 + shape}Gi"}), priority=100, labels=app_labels(_HIGH)
        )
        for shape in range(shapes)
    ]


def _apart() -> list[GuestSpec]:
    return [
        msgspec.structs.replace(spec, anti_affinity=(GuestTerm(HOSTNAME, app_selector(_HIGH)),))
        for spec in _preemptors(1)
    ]


def _preempt(full: Engine, specs: Sequence[GuestSpec], count: int, *, together: bool, budget: bool) -> float:
    """Return the seconds that so many preemptions take, from arrival to bind, on a twin of the full fleet."""
    engine = full.fork()
    if budget:
        engine.apply(BudgetChanged(budget=Budget(name="low", selector=app_selector(_LOW), allowed=10 * count)))
    gc.collect()
    came = bound = 0
    start = perf_counter()
    while came < count and perf_counter() - start < LONG_S:
        uid = f"high-{came}"
        engine.apply(GuestArrived(guest=Guest(name=uid, uid=uid, spec=specs[came % len(specs)])))
        came += 1
        if not together:
            bound += _settle(engine)
    bound += _settle(engine) if together else 0
    taken = perf_counter() - start
    if bound != came:
        raise RuntimeError(f"{bound} of {came} preemptors were bound")
    return taken * count / came


def _settle(engine: Engine) -> int:
    """Carry out the evictions of one step and the binds of the next; return how many were bound."""
    _carry_out(engine, engine.step(engine.now + 1))
    return _carry_out(engine, engine.step(engine.now + 1))


def _carry_out(engine: Engine, actions: Sequence[Action]) -> int:
    bound = 0
    for action in actions:
        if isinstance(action, Evict):
            engine.apply(GuestLeft(uid=action.uid))
        elif isinstance(action, Bind):
            engine.apply(GuestBound(uid=action.uid, host=action.host))
            bound += 1
    return bound
