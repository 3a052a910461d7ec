"""Pack the published results of the FGD experiments small: ``python -m tools.pack_published SOURCE``.

SOURCE holds ``analysis_{allo,frag,frag_ratio}_discrete.csv`` of the artifact (its folder
``experiments/analysis/expected_results``). Of each of its runs a digest of all three curves is written. A digest says
only whether two runs are equal; the curves of a few runs are kept beside it, to show where others differ.
"""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path

from hostler.sim.fill_experiment import BINS
from tests.sim.published_runs import DIGESTS, METRICS, curves_digest


def main(source: Path) -> None:
    """Write the digests of all runs."""
    curves: dict[tuple[str, str, str], dict[str, tuple[float, ...]]] = {}
    for metric, name in METRICS.items():
        with (source / f"analysis_{name}_discrete.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                key = (row["workload"], row["sc_policy"], row["seed"])
                curves.setdefault(key, {})[metric] = tuple(float(row[str(k)]) for k in range(BINS))
    lines = ["workload,sc_policy,seed,digest"]
    lines += [",".join((*key, curves_digest(curves[key]))) for key in sorted(curves)]
    DIGESTS.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
