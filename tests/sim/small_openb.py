"""A data folder with an openb of twelve nodes and sixty pods, so that a run takes milliseconds.

Its seeds are not 42 to 51: those have published orders, which name pods of the real trace.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from hostler.sim.shuffles import draws
from hostler.sim.sweeps.cells import SweepCell

SEEDS = "1-4"
_SHARES = (50, 220, 330, 500, 590, 810, 1000, 1000)


def write_small_openb(folder: Path) -> Path:
    """Write the folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes = [f"node-{at:02d},{(16, 32, 96)[at % 3] * 1000},131072,{(1, 2, 8)[at % 3]},{'T4' if at % 3 else 'G2'}"
             for at in range(12)]  # fmt: skip
    _pack(folder / "gpu_nodes.csv.gz", ["sn,cpu_milli,memory_mib,gpu,model", *nodes])
    numbers = (draws(5, 1, 60) % 1000).tolist()
    pods = [f"pod-{at:02d},{500 + number * 6},{512 + number},1,{_SHARES[number % len(_SHARES)]}"
            for at, number in enumerate(numbers)]  # fmt: skip
    for workload in ("default", "cpu050"):
        _pack(folder / f"pods_{workload}.csv.gz", ["name,cpu_milli,memory_mib,num_gpu,gpu_milli", *pods])
        pods = pods[10:]
    return folder


def small_cells(data_dir: Path, count: int = 3) -> list[SweepCell]:
    """Return cells on the small trace: two policies, and so many seeds."""
    return [
        SweepCell(policy=policy, seed=seed, data_dir=str(data_dir))
        for seed in range(1, count + 1)
        for policy in ("fgd", "random")
    ]


def _pack(path: Path, lines: list[str]) -> None:
    path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))
