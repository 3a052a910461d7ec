"""The published results of the FGD experiments: digests of all 1,020 runs, and the curves of 93.

Source and licence: ``published/README.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from hostler.sim.datasets import read_rows
from hostler.sim.fill_experiment import BINS

PUBLISHED = Path(__file__).parent / "published"
DIGESTS = PUBLISHED / "digests.csv.gz"
DIGITS = 6  # of a value in a digest: published ones are exact to 2 digits, or means of such over some 100 events
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


def curves_digest(curves: Mapping[str, Sequence[float]]) -> str:
    """Return a short text that is equal for runs with the same values in all bins of all metrics."""
    values = (f"{curves[metric][k]:.{DIGITS}f}" for metric in METRICS for k in range(BINS))
    return hashlib.sha256(" ".join(values).encode()).hexdigest()[:16]


def published_digest(workload: str, policy: str, seed: int) -> str:
    """Return the digest of a published run."""
    return _digests()[f"openb_pod_list_{workload}", NAMES[policy], str(seed)]


@cache
def _digests() -> dict[tuple[str, str, str], str]:
    columns = ("workload", "sc_policy", "seed", "digest")
    return {(row["workload"], row["sc_policy"], row["seed"]): row["digest"] for row in read_rows(DIGESTS, columns)}


@cache
def _curves(metric: str) -> dict[tuple[str, str, str], tuple[float, ...]]:
    path = PUBLISHED / f"analysis_{metric}_discrete.csv.gz"
    return {
        (row["workload"], row["sc_policy"], row["seed"]): tuple(float(row[str(k)]) for k in range(BINS))
        for row in read_rows(path, ("workload", "sc_policy", "seed"))
    }
