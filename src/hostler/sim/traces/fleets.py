"""Files of kind Fleet, our own format for hosts and guests: they have no times but when a running guest started."""

from __future__ import annotations

from pathlib import Path

from hostler.config import merge, parse_documents, read_fleet
from hostler.engine import BUILT_IN
from hostler.sim.traces.demand import placed_on
from hostler.sim.traces.files import first_bytes, read_unpacked
from hostler.sim.traces.kubernetes import Times, workload_of
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import Workload

__all__ = ["read_fleet_trace", "recognises_fleet"]

_USUAL_HOST = (64_000, 256 * 2**30)


def recognises_fleet(path: Path) -> bool:
    """Say whether a file begins as a fleet does."""
    head = first_bytes(path)
    return b"apiVersion" in head and b"hostler/v1" in head and b"Fleet" in head


def read_fleet_trace(path: Path, options: TraceOptions) -> Workload:
    """Read hosts and guests of a fleet; all guests arrive at once, except those that say when they started."""
    fleet = merge([read_fleet(document, BUILT_IN) for document in parse_documents(read_unpacked(path), str(path))])
    times = {
        (guest.spec.namespace, guest.name): Times(guest.started) for guest in fleet.guests if guest.started
    }  # who never ran arrives with the first that did
    workload = workload_of(path.name.split(".")[0], fleet.hosts, fleet.guests, fleet.tenancy.gangs, times, str(path))
    return placed_on(workload, options, cpu_milli=_USUAL_HOST[0], memory_bytes=_USUAL_HOST[1])
