"""The published results of the FGD experiments, 90 of 1,020 runs; source and licence: ``published/README.md``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hostler.sim.datasets import read_rows
from hostler.sim.fill_experiment import BINS

PUBLISHED = Path(__file__).parent / "published"
WORKLOADS = ("default", "cpu250", "gpushare60", "gpuspec33", "multigpu30")
SEEDS = (42, 43, 44)
METRICS = {"alloc": "allo", "frag": "frag", "frag_ratio": "frag_ratio"}
NAMES = {
    "random": "01-Random",
    "dot_product": "02-DotProd",
    "gpu_clustering": "03-GpuClustering",
    "gpu_packing": "04-GpuPacking",
    "gpu_best_fit": "05-BestFit",
    "fgd": "06-FGD",
}
DETERMINISTIC = tuple(name for name in NAMES if name != "random")


def published(workload: str, policy: str, seed: int, metric: str) -> tuple[float, ...]:
    """Return a published curve of 131 values."""
    return _curves(METRICS[metric])[f"openb_pod_list_{workload}", NAMES[policy], str(seed)]


@cache
def _curves(metric: str) -> dict[tuple[str, str, str], tuple[float, ...]]:
    path = PUBLISHED / f"analysis_{metric}_discrete.csv.gz"
    return {
        (row["workload"], row["sc_policy"], row["seed"]): tuple(float(row[str(k)]) for k in range(BINS))
        for row in read_rows(path, ("workload", "sc_policy", "seed"))
    }
