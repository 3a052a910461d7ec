"""Pack the openb trace and its arrival orders small: ``python -m tools.pack_openb SOURCE``.

SOURCE holds the CSV files of the trace (``openb_pod_list_*.csv.gz``, ``openb_node_list_gpu_node.csv``) and
``arrival_orders/*.npz``. Pods keep all their columns. The gpuspec workloads differ from default in one column, so that
column alone is kept. Of each order the high and the low bytes are kept apart, because they compress better so.
The default workload goes into the package, the others into ``data/``.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
IN_PACKAGE = ROOT / "src" / "hostler" / "sim" / "data" / "openb"
IN_REPOSITORY = ROOT / "data" / "openb"
SHUFFLED = (
    "default", "cpu050", "cpu100", "cpu200", "cpu250", "gpushare40", "gpushare60", "gpushare80", "gpushare100",
    "multigpu20", "multigpu30", "multigpu40", "multigpu50",
)  # fmt: skip
CONSTRAINED = ("gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33")


def main(source: Path) -> None:
    """Write all files."""
    IN_PACKAGE.mkdir(parents=True, exist_ok=True)
    IN_REPOSITORY.mkdir(parents=True, exist_ok=True)
    write(IN_PACKAGE / "gpu_nodes.csv.gz", (source / "openb_node_list_gpu_node.csv").read_text())
    for name in SHUFFLED:
        folder = IN_PACKAGE if name == "default" else IN_REPOSITORY
        write(folder / f"pods_{name}.csv.gz", read(source, name))
        pack_orders(source / "arrival_orders" / f"{name}.npz", folder / f"arrivals_{name}.npz")
    write(IN_REPOSITORY / "models_gpuspec.csv.gz", constraints(source))


def read(source: Path, name: str) -> str:
    """Return a pod list as text."""
    return gzip.decompress((source / f"openb_pod_list_{name}.csv.gz").read_bytes()).decode()


def constraints(source: Path) -> str:
    """Return the models that each pod of the gpuspec workloads allows."""
    default = list(csv.DictReader(io.StringIO(read(source, "default"))))
    columns = {}
    for name in CONSTRAINED:
        pods = list(csv.DictReader(io.StringIO(read(source, name))))
        if [{**pod, "gpu_spec": ""} for pod in pods] != [{**pod, "gpu_spec": ""} for pod in default]:
            raise SystemExit(f"{name} differs from default in more than the models")
        columns[name] = [pod["gpu_spec"] for pod in pods]
    lines = [",".join(("name", *CONSTRAINED))]
    for at, pod in enumerate(default):
        lines.append(",".join((pod["name"], *(columns[name][at] for name in CONSTRAINED))))
    return "\n".join(lines) + "\n"


def pack_orders(source: Path, target: Path) -> None:
    """Write the orders and host ranks of all seeds, high and low bytes apart."""
    planes = {}
    with np.load(source) as arrays:
        for name in arrays.files:
            kind, seed = name.replace("nodeprio", "rank").split("_")
            planes[f"{kind}_{seed}_high"] = (arrays[name] >> 8).astype(np.uint8)
            planes[f"{kind}_{seed}_low"] = (arrays[name] & 255).astype(np.uint8)
    np.savez_compressed(target, allow_pickle=False, **planes)


def write(target: Path, text: str) -> None:
    """Write a compressed text that is the same whenever it is made."""
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
