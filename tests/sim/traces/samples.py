"""Makes the samples in data/samples that are not real: seeded, so that a test can make them again and compare.

``python -m tests.sim.traces.samples`` writes them. The sample of huawei-topology is an excerpt of the real one.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[3] / "data" / "samples"
SEED = 20260101


def huawei_east() -> str:
    """Return a table with the columns of Huawei-East-1; its numbers are drawn, none is from the trace."""
    draws = np.random.default_rng(SEED)
    sizes = [(1, 2), (2, 4), (4, 8), (4, 16), (8, 32), (16, 64)]
    arrives = np.sort(draws.integers(0, 2 * 86_400, 300))
    lasts = np.maximum(draws.lognormal(8, 1.3, 300), 60).astype(int)
    kinds = draws.choice(len(sizes), 300, p=[0.5, 0.2, 0.12, 0.1, 0.06, 0.02])
    rows = [
        f"{n},{sizes[k][0]},{sizes[k][1]},{a}.0,{lt}.0"
        for n, (k, a, lt) in enumerate(zip(kinds, arrives, lasts, strict=True))
    ]
    return "\n".join(["vmid,cpu,mem,at,lt", *rows, ""])


def azure_packing() -> str:
    """Return a table with the columns of the packing trace: some VMs run before it begins, some never end."""
    draws = np.random.default_rng(SEED + 1)
    sizes = [(42.0, 7.0), (84.0, 14.0), (168.0, 28.0), (800.0, 112.0), (3200.0, 1024.0)]
    rows = []
    for number in range(200):
        cores, ram = sizes[draws.choice(5, p=[0.5, 0.25, 0.15, 0.08, 0.02])]
        start = -float(draws.integers(1, 400)) if number < 30 else round(14 * (number - 30) / 170, 6)
        end = "inf" if draws.random() < 0.1 else round(max(start, 0) + float(draws.exponential(0.4)) + 0.001, 6)
        rows.append(f"{1000 + number},{number // 3},{cores},{ram},{int(draws.random() < 0.12)},{start},{end}")
    return "\n".join(["vmId,tenantId,cores,ram,vmTypeId,starttime,endtime", *rows, ""])


def azure_vm() -> dict[str, str]:
    """Return the four files of a small trace in bins."""
    draws = np.random.default_rng(SEED + 2)
    flavours, lifetimes = [], []
    for number in range(24):
        kinds, lasts = [], []
        for _ in range(int(draws.integers(1, 4))):
            for _ in range(int(draws.integers(1, 5))):
                kinds.append("abc"[draws.integers(0, 3)])
                lasts.append("C9" if draws.random() < 0.1 else f"U{draws.integers(0, 9)}")
            kinds.append("|")
            lasts.append("|")
        flavours.append(f"{7200 + 300 * number} {','.join(kinds)}")
        lifetimes.append(f"{7200 + 300 * number} {','.join(lasts)}")
    bins = [f"{300 * number} {min(number, 8)}" for number in range(13)]
    return {
        "v1.tiny.txt": "\n".join([*flavours, ""]),
        "v1.tiny.c14400.txt": "\n".join([*lifetimes, ""]),
        "flav_map.txt": "1,0.75 a\n1,1.75 b\n2,3.5 c\n",
        "v1.interval_map.txt": "\n".join([*bins, ""]),
    }


def jobs() -> dict[str, str]:
    """Return a table in our format with its hosts, and one with other names of columns."""
    draws = np.random.default_rng(SEED + 3)
    ours = ["name,arrival,duration,cpu,memory,gpus,gpu_milli,priority,tenant,gang"]
    theirs = ["job,submit,wall,cores,ram,note"]
    for number in range(60):
        arrival, lasts = number * 45 + 0.5 * (number % 2), int(draws.integers(60, 7200))
        size = f"{[1, 2, 4][number % 3]},{[2, 4, 8][number % 3]}Gi"
        gpus = "1,250" if number % 4 == 3 else f"{number % 3},"
        gang = f"train-{number // 12}" if number % 12 < 4 else ""
        rest = f"{10 * (number % 2)},team-{number % 5},{gang}"
        ours.append(f"job-{number:02d},{arrival:g},{lasts}s,{size},{gpus},{rest}")
        theirs.append(f"{number},{arrival:g},{lasts},{size},x")
    hosts = "name,count,cpu,memory,gpus,gpu_model,labels\n"
    hosts += 'big,2,32,128Gi,4,A10,"{""rack"": ""r1""}"\nsmall,4,16,64Gi,,,rack=r2\n'
    return {"jobs.csv": "\n".join([*ours, ""]), "jobs.hosts.csv": hosts, "foreign.csv": "\n".join([*theirs, ""])}


def cluster() -> str:
    """Return a dump of a small cluster: pods that run, wait and have finished."""

    def pod(name: str, created: str, **status: object) -> dict[str, object]:
        container = {
            "name": "main",
            "image": "registry.example/app:1",
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
        }
        metadata = {"name": name, "namespace": "default", "creationTimestamp": f"2026-01-05T{created}Z"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container]},
            "status": status,
        }

    def ended(at: str) -> list[dict[str, object]]:
        return [{"name": "main", "state": {"terminated": {"finishedAt": f"2026-01-05T{at}Z"}}}]

    size = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": size, "capacity": size},
        }
        for name in ("node-a", "node-b")
    ]
    pods = [
        pod("web", "08:00:00", phase="Running", startTime="2026-01-05T08:00:02Z"),
        pod(
            "report",
            "08:10:00",
            phase="Succeeded",
            startTime="2026-01-05T08:10:05Z",
            containerStatuses=ended("08:25:05"),
        ),
        pod(
            "broken", "08:20:00", phase="Failed", startTime="2026-01-05T08:20:01Z", containerStatuses=ended("08:20:31")
        ),
        pod("waits", "08:30:00", phase="Pending"),
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}, indent=1) + "\n"


def samples() -> dict[str, str]:
    """Return all samples that are made, by their path in the folder."""
    return {
        "huawei-east-1-like.csv": huawei_east(),
        "azure-packing-like.csv": azure_packing(),
        **{f"azure-vm-like/{name}": text for name, text in azure_vm().items()},
        **jobs(),
        "cluster.json": cluster(),
    }


if __name__ == "__main__":
    for path, text in samples().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text)
