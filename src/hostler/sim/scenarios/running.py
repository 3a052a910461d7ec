"""One run of a scenario: played on the engine, or by a kernel where guests only come and go, then measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from hostler.engine import Registry
from hostler.engine.replay import Replayed, can_replay, replay
from hostler.model import Policy
from hostler.sim.filling import with_mix
from hostler.sim.scenarios.history import DROPPED, FINISHED, RUNNING, History
from hostler.sim.scenarios.outcome import Outcome, measure
from hostler.sim.scenarios.scenario import Scenario
from hostler.sim.scenarios.simulation import simulate
from hostler.sim.workload import FOREVER, Workload

__all__ = ["play", "run_scenario"]


def run_scenario(
    scenario: Scenario,
    policy: Policy,
    seed: int,
    registry: Registry | None = None,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Play a scenario under a policy and return its figures; the same seed gives the same ones."""
    workload = scenario.workload
    chosen = with_mix(policy, [workload.specs[n] for n in workload.spec_of[:100_000].tolist()])
    return measure(scenario, policy.name, seed, play(scenario, chosen, seed, registry, progress))


def play(
    scenario: Scenario,
    policy: Policy,
    seed: int,
    registry: Registry | None = None,
    progress: Callable[[int], None] | None = None,
) -> History:
    """Play a scenario; both ways decide the same."""
    workload = scenario.workload
    if scenario.is_plain and can_replay(policy, workload.specs) and len(workload):
        # Those who come at one moment are decided by priority.
        priority = np.array([spec.priority for spec in workload.specs], dtype=np.int64)[workload.spec_of]
        order = np.lexsort((-priority, workload.arrives_ns))
        found = replay(
            workload.hosts,
            policy,
            workload.specs,
            workload.spec_of[order],
            workload.arrives_ns[order],
            workload.runs_ns[order],
            [workload.names[guest] for guest in order.tolist()] if np.any(np.diff(order) != 1) else workload.names,
            seed=seed,
            registry=registry,
            progress=progress or (lambda _: None),
        )
        if found is not None:
            back = np.argsort(order)
            placed = Replayed(found.rows[back], found.devices[back], found.taken[back])
            return _history(workload, placed)
    return simulate(scenario, policy, seed, registry, progress)


def _history(workload: Workload, placed: Replayed) -> History:
    """Return what happened as columns: ends before starts at one moment, as they were decided."""
    guests = np.flatnonzero(placed.rows >= 0)
    ends = guests[workload.runs_ns[guests] != FOREVER]
    at = np.concatenate((workload.arrives_ns[guests], workload.arrives_ns[ends] + workload.runs_ns[ends]))
    sign = np.concatenate((np.ones(len(guests), dtype=np.int64), -np.ones(len(ends), dtype=np.int64)))
    guest = np.concatenate((guests, ends))
    order = np.lexsort((guest, sign, at))
    guest = guest[order]
    status = np.where(placed.rows < 0, DROPPED, np.where(workload.runs_ns == FOREVER, RUNNING, FINISHED))
    nobody = np.zeros(0, dtype=np.int64)
    return History(
        at_ns=at[order],
        guest=guest,
        row=placed.rows[guest],
        sign=sign[order],
        devices=placed.devices[guest],
        counts=placed.taken[guest],
        status=status,
        waited_ns=np.zeros(len(workload), dtype=np.int64),
        starts=(placed.rows >= 0).astype(np.int64),
        queue_at_ns=nobody,
        queue_by=nobody,
        begins_ns=int(workload.arrives_ns[0]),
        ends_ns=max(int(at.max(initial=0)), int(workload.arrives_ns[-1]), 1),
        counted=Counter(),
    )
