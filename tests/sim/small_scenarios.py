"""Small scenarios for tests, written as a user would."""

from __future__ import annotations

from typing import Any

import numpy as np

from hostler.config import parse_documents, write_yaml
from hostler.engine import BUILT_IN, find_policy
from hostler.model import Policy
from hostler.queries import with_mixes
from hostler.sim.scenarios import Scenario, read_scenario
from hostler.sim.scenarios.history import RunHistory
from hostler.sim.scenarios.simulation import simulate

SECOND = 10**9
HOUR = 3600 * SECOND


def scenario(**parts: Any) -> Scenario:
    """Read a scenario with one host of four cores, unless told otherwise."""
    seed = parts.pop("read_with", None)
    content = {
        "apiVersion": "hostler/v1",
        "kind": "Scenario",
        "hosts": [{"name": "a", "capacity": {"cpu": 4, "memory": "8Gi"}}],
        **parts,
    }
    (document,) = parse_documents(write_yaml(content).encode(), "scene.yaml")
    return read_scenario(document, BUILT_IN, seed=seed)


def stream(name: str, count: int, cpu: int = 1, lasts: str = "1h", every_s: int = 0, **fields: Any) -> dict[str, Any]:
    """Describe guests that come evenly, or all at once, and run for a fixed time."""
    guest = {"name": name, "requests": {"cpu": cpu}, **fields.pop("guest", {})}
    kind = {"kind": "even", "per_hour": 3600 / every_s} if every_s else {"kind": "at_once"}
    return {"guest": guest, "count": count, "pattern": kind, "duration": {"kind": "fixed", "mean": lasts}, **fields}


def play_small(scene: Scenario, policy: str | Policy = "spread", seed: int = 1) -> RunHistory:
    """Play a scene on the engine."""
    chosen = find_policy(policy) if isinstance(policy, str) else policy
    (chosen,) = with_mixes([chosen], scene.workload.specs)
    return simulate(scene, chosen, seed)


def stays(scene: Scenario, history: RunHistory, name: str) -> list[tuple[str, float, float]]:
    """Return where a guest ran, from when to when, in seconds; without an end where it still runs."""
    number = list(scene.workload.names).index(name)
    found: list[tuple[str, float, float]] = []
    for at in np.flatnonzero(history.guest == number).tolist():
        when = int(history.at_ns[at]) / SECOND
        if history.sign[at] > 0:
            found.append((scene.workload.hosts[int(history.row[at])].name, when, float("inf")))
        else:
            found[-1] = (*found[-1][:2], when)
    return found
