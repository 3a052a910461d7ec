"""Replays for the simulator: guests arrive, are placed or dropped, and leave, decided by one kernel.

For simulations in which nothing else happens. A guest that fits nowhere is dropped at once; departures come before
arrivals of the same moment. Decisions equal those of an engine that gets each of these facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.cluster.randomness import PLACEMENT, draw, name_hash
from hostler.engine.engine import Engine
from hostler.engine.kernels.layout import Int64s, Uint64s
from hostler.engine.policy.registry import Registry
from hostler.engine.state.state import State
from hostler.model import GuestSpec, Host, HostsJoined, Policy

__all__ = ["ReplayResult", "can_replay", "replay"]

_CHUNK = 65_536  # guests between two words about progress


class ReplayResult(NamedTuple):
    """The row of each guest's host, -1 if it was dropped, and its devices."""

    rows: Int64s
    devices: Int64s
    taken: Int64s


def can_replay(policy: Policy, specs: Sequence[GuestSpec]) -> bool:
    """Say whether a policy decides these guests without asking, preparing or evicting."""
    may_evict = policy.preemption is not None or policy.reclaim
    is_plain = policy.ask is None and not (may_evict and len({spec.priority for spec in specs}) > 1)
    return is_plain and not policy.reclaim and not any(s.prepare or s.policy or s.is_leaving for s in specs)


def replay(
    hosts: Sequence[Host],
    policy: Policy,
    specs: Sequence[GuestSpec],
    spec_of: Int64s,
    arrives: Int64s,
    runs: Int64s,
    uids: Sequence[str],
    *,
    seed: int = 0,
    registry: Registry | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> ReplayResult | None:
    """Place guests in the order given, by time; return None if there are too many shapes for one kernel."""
    engine = Engine([policy], 0, seed, registry=registry)
    engine.apply_many(HostsJoined(hosts=tuple(hosts)))
    state = engine.state
    profile = state.profiles.profiles[0]
    numbers = [state.shapes.number(spec) for spec in specs]
    if not profile.is_static or len(set(numbers)) > state.cache.distinct_limit():
        return None
    shapes = [state.shapes.shapes[number] for number in numbers]
    slots = np.array([state.cache.slot(shape, 0) for shape in shapes], dtype=np.int64)
    draws = np.zeros(len(spec_of), dtype=np.uint64)
    if profile.draws:
        draws = _draws(seed, uids)
    width = max((shape.device_count for shape in shapes), default=0)
    result = ReplayResult(
        np.full(len(spec_of), -1, dtype=np.int64),
        np.zeros((len(spec_of), max(width, 1)), dtype=np.int64),
        np.zeros(len(spec_of), dtype=np.int64),
    )
    heap = (np.zeros(len(spec_of) + 1, dtype=np.int64), np.zeros(len(spec_of) + 1, dtype=np.int64))
    size, slot_of = 0, slots[spec_of]
    for start in range(0, len(spec_of), _CHUNK):
        stop = min(start + _CHUNK, len(spec_of))
        size = state.cache.replay(slot_of, draws, (arrives, runs), (start, stop), heap, size, result)
        progress(stop - start)
    return result._replace(rows=_in_order(state, hosts)[result.rows])


def _in_order(state: State, hosts: Sequence[Host]) -> Int64s:
    """Return for each row, and at the end for -1, the index of the host among those given."""
    index = np.full(state.cluster.rows + 1, -1, dtype=np.int64)
    for at, host in enumerate(hosts):
        index[state.cluster.row_of[host.name]] = at
    return index


def _draws(seed: int, uids: Sequence[str]) -> Uint64s:
    return np.array([draw(seed, name_hash(uid), 0, PLACEMENT) for uid in uids], dtype=np.uint64)
