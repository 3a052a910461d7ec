"""Steps that the tests of traces share."""

from __future__ import annotations

from pathlib import Path

from hostler.sim.traces.formats import read_trace
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import Workload
from tests.sim.traces.samples import FOLDER

HOUR = 3600 * 10**9
SECOND = 10**9
GIB = 2**30


def read(path: Path | str, format: str | None = None, **options) -> Workload:
    """Read a trace, with options by name."""
    return read_trace(path, format, TraceOptions(**options))


def sample(name: str, **options) -> Workload:
    return read(FOLDER / name, **options)


def table(folder: Path, text: str, name: str = "t.csv", **options) -> Workload:
    """Read a table of ours from its text."""
    path = folder / name
    path.write_text(text)
    return read(path, "table", **{"hosts": 1, **options})


def same(one: Workload, other: Workload, *, hosts: bool = True) -> None:
    """Check that two workloads are the same, whatever numbers their specs and gangs have."""
    assert list(one.names) == list(other.names)
    assert one.arrives_ns.tolist() == other.arrives_ns.tolist()
    assert one.runs_ns.tolist() == other.runs_ns.tolist()
    assert [one.spec(guest) for guest in range(len(one))] == [other.spec(guest) for guest in range(len(other))]
    assert gangs(one) == gangs(other)
    if hosts:
        assert one.hosts == other.hosts


def gangs(workload: Workload) -> list[object]:
    """Return the gang of each guest."""
    numbers = workload.gang_of.tolist() if len(workload.gang_of) else [-1] * len(workload)
    return [workload.gangs[number] if number >= 0 else None for number in numbers]
