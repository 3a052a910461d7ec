"""A large gang: from the first member's arrival to all binds, anywhere and confined to one zone."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import perf_counter

from bench.fleet import ZONE, ZONES, engine_with_hosts
from bench.results import Row
from bench.sizes import Sizes
from hostler.model import Bind, Gang, GangChanged, Guest, GuestArrived, GuestSpec, parse_amounts

__all__ = ["decide_once", "rows"]

SHAPES = 4


def rows(sizes: Sizes) -> Iterator[Row]:
    """Measure one gang on an empty fleet."""
    for name, where, topology in (("gang", "", ""), ("gang in a zone", f", confined to one of {ZONES} zones", ZONE)):
        runs = tuple(round(1000 * decide_once(sizes.hosts, sizes.gang, topology), 3) for _ in range(sizes.runs))
        yield Row(
            name=name,
            what=f"{sizes.hosts:,} hosts, one gang of {sizes.gang:,}, {SHAPES} shapes{where}",
            unit="ms",
            target=100.0,
            sense="at most",
            measured=min(runs),
            runs=runs,
        )


def decide_once(hosts: int, members: int, topology: str) -> float:
    """Return the seconds from making the first fact to holding the last action."""
    engine = engine_with_hosts(hosts, "kubernetes", ZONES)
    known = [GuestSpec(requests=parse_amounts({"cpu": 8 + shape, "memory": "16Gi"})) for shape in range(SHAPES)]
    gc.collect()
    start = perf_counter()
    gang = Gang(name="gang", min_count=members, topology=topology)
    engine.apply(GangChanged(gang=gang))
    for at in range(members):
        uid = f"member-{at}"
        guest = Guest(name=uid, uid=uid, spec=known[at % SHAPES], gang=gang.key)
        engine.apply(GuestArrived(guest=guest))
    actions = engine.step(1)
    taken = perf_counter() - start
    if sum(isinstance(action, Bind) for action in actions) != members:
        raise RuntimeError("the gang was not placed")
    return taken
