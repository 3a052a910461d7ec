"""Huawei-East-1: a month of VMs with their arrivals and lifetimes (released with VMAgent; CC BY-NC 4.0).

Columns: ``vmid``, ``cpu`` in cores, ``mem`` in GB, ``at`` and ``lt`` in seconds. Rows are in order of arrival. The
VMs that outlived the month are not in the table. Usual hosts in papers: 40 cores and 90 GB.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hostler.model import CPU, MEMORY, GuestSpec, amounts
from hostler.sim.traces.demand import placed_on
from hostler.sim.traces.files import header_of, read_columns, refuse_duplicates
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import Workload

__all__ = ["read_huawei_east", "recognises_huawei_east"]

_COLUMNS = ("vmid", "cpu", "mem", "at", "lt")
_SECOND_NS = 10**9
_GIB = 2**30
_USUAL_HOST = (40_000, 90 * _GIB)


def recognises_huawei_east(path: Path) -> bool:
    """Say whether a file has the columns of this format."""
    return set(_COLUMNS) <= set(header_of(path))


def read_huawei_east(path: Path, options: TraceOptions) -> Workload:
    """Read the table of VMs."""
    columns = read_columns(path, _COLUMNS)
    refuse_duplicates(columns, "vmid")
    sizes = np.stack((columns.amounts("cpu", 1000), columns.amounts("mem", _GIB)), axis=1)
    rows, spec_of = np.unique(sizes, axis=0, return_inverse=True)
    arrives = columns.times("at", _SECOND_NS)
    backwards = np.diff(arrives, prepend=arrives[0]) < 0
    columns.refuse(backwards, "at is earlier than in the row before", "this format is in order of arrival")
    workload = Workload(
        name=path.name.split(".")[0],
        hosts=(),
        specs=tuple(GuestSpec(requests=amounts({CPU: cpu, MEMORY: memory})) for cpu, memory in rows.tolist()),
        spec_of=spec_of.astype(np.int64).reshape(-1),
        names=[f"vm-{name}" for name in columns.text("vmid")],
        arrives_ns=arrives,
        runs_ns=columns.times("lt", _SECOND_NS),
    )
    return placed_on(workload, options, cpu_milli=_USUAL_HOST[0], memory_bytes=_USUAL_HOST[1])
