"""What is wasted: room that nobody can use, and hosts that are overloaded; measured host by host at each sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hostler.model import CPU, MEMORY, GuestSpec, amount_of
from hostler.sim.scenarios.history import History
from hostler.sim.scenarios.scenario import Scenario
from hostler.sim.workload import Ints

__all__ = ["host_loads", "stranded"]

Floats = NDArray[np.float64]
DAY = 24 * 3600 * 10**9
_SIZES = 64  # the most common sizes, by which room is judged
_PICTURED = 200  # hosts in the picture of a fleet


def stranded(
    scenario: Scenario,
    specs: Sequence[GuestSpec],
    history: History,
    spec: Ints,
    reached: Ints,
    capacity: Mapping[str, Ints],
) -> tuple[list[float], list[float]]:
    """Return the shares of cpu and memory that are free on hosts where none of the common sizes fits."""
    workload = scenario.workload
    counts = np.bincount(workload.spec_of, minlength=len(workload.specs))
    common = [workload.specs[n] for n in np.argsort(-counts, kind="stable")[:_SIZES].tolist()]
    sizes = sorted({(amount_of(s.requests, CPU), amount_of(s.requests, MEMORY)) for s in common})
    cpu = np.array([amount_of(s.requests, CPU) for s in specs], dtype=np.int64)
    memory = np.array([amount_of(s.requests, MEMORY) for s in specs], dtype=np.int64)
    free_cpu, free_memory = capacity["cpu"].copy(), capacity["memory"].copy()
    out: tuple[list[float], list[float]] = ([], [])
    done = 0
    for last in reached.tolist():
        events = slice(done, last + 1)
        np.subtract.at(free_cpu, history.row[events], cpu[spec[events]] * history.sign[events])
        np.subtract.at(free_memory, history.row[events], memory[spec[events]] * history.sign[events])
        done = max(done, last + 1)
        fits = np.zeros(len(free_cpu), dtype=np.bool_)
        for wanted_cpu, wanted_memory in sizes:
            fits |= (free_cpu >= wanted_cpu) & (free_memory >= wanted_memory)
        out[0].append(float(np.maximum(free_cpu[~fits], 0).sum() / max(int(capacity["cpu"].sum()), 1)))
        out[1].append(float(np.maximum(free_memory[~fits], 0).sum() / max(int(capacity["memory"].sum()), 1)))
    return out


def host_loads(
    scenario: Scenario,
    history: History,
    spec: Ints,
    reached: Ints,
    samples: Ints,
    amounts: Mapping[str, Ints],
    capacity: Mapping[str, Ints],
) -> tuple[list[float], list[int], list[list[float]]]:
    """Return the cpu really used as a share, the hosts beyond their cpu, and each host's share in use, by sample.

    A guest without a load uses what it asked for.
    """
    hosts = len(capacity["cpu"])
    kinds = sorted({load for load in scenario.loads if load is not None}, key=repr)
    kind_of_spec = np.array(
        [kinds.index(load) if load is not None else len(kinds) for load in scenario.loads]
        + [len(kinds)] * len(scenario.running),
        dtype=np.int64,
    )
    kind = kind_of_spec[spec] if len(spec) else spec
    asked = np.zeros((len(kinds) + 1, hosts), dtype=np.float64)
    has_gpus = bool(capacity["gpu"].sum())
    shown = "gpu" if has_gpus else "cpu"
    in_use = np.zeros(hosts, dtype=np.float64)
    whole = np.maximum(capacity[shown], 1)
    pictured = np.linspace(0, hosts - 1, min(hosts, _PICTURED)).astype(np.int64)
    shares: list[float] = []
    overloaded: list[int] = []
    pictures: list[list[float]] = []
    done = 0
    total = max(int(capacity["cpu"].sum()), 1)
    for last, now in zip(reached.tolist(), samples.tolist(), strict=True):
        events = slice(done, last + 1)
        signed = amounts["cpu"][events] * history.sign[events]
        np.add.at(asked, (kind[events], history.row[events]), signed)
        np.add.at(in_use, history.row[events], amounts[shown][events] * history.sign[events])
        done = max(done, last + 1)
        turn = [
            load.mean * (1.0 + load.swing * np.cos(2.0 * np.pi * ((now - load.peak_ns) % DAY) / DAY)) for load in kinds
        ]
        used = np.array([*turn, 1.0]) @ asked
        shares.append(float(used.sum() / total))
        overloaded.append(int((used > capacity["cpu"]).sum()))
        pictures.append([round(float(value), 4) for value in (in_use / whole)[pictured]])
    return shares, overloaded, pictures
