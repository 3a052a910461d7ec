"""The formats of traces by name: what each is, how it is read, and how its files are recognized.

Files of kind Fleet are read here, too: they have no times except when a running guest started.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hostler.config import did_you_mean, merge_fleets, parse_documents, quote, read_fleet
from hostler.engine import BUILT_IN
from hostler.errors import InputError, UnknownNameError
from hostler.sim.traces.azure_packing_trace import read_azure_packing, recognizes_azure_packing
from hostler.sim.traces.azure_vm import read_azure_vm, recognizes_azure_vm
from hostler.sim.traces.demand import count_oversized_guests, too_large_text, with_chosen_hosts
from hostler.sim.traces.files import read_first_bytes, read_unpacked
from hostler.sim.traces.huawei import (
    read_huawei_east,
    read_huawei_topology,
    recognizes_huawei_east,
    recognizes_huawei_topology,
)
from hostler.sim.traces.journals import read_journal_trace, recognizes_journal
from hostler.sim.traces.kubernetes import PodTimes, read_kubernetes, recognizes_kubernetes, workload_of
from hostler.sim.traces.openb import USUAL_HOST, read_openb, read_timed, recognizes_openb
from hostler.sim.traces.options import TraceOptions
from hostler.sim.traces.tables.input import read_hosts_table, read_table, recognizes_table
from hostler.sim.workload import Workload

__all__ = ["FORMATS", "TraceFormat", "format_of", "read_trace"]

_FLEET_HOST = (64_000, 256 * 2**30)


def _recognizes_fleet(path: Path) -> bool:
    """Say whether a file begins as a fleet does."""
    head = read_first_bytes(path)
    return b"apiVersion" in head and b"hostler/v1" in head and b"Fleet" in head


def _read_fleet_trace(path: Path, options: TraceOptions) -> Workload:
    """Read hosts and guests of a fleet; all guests arrive at once, except those that say when they started."""
    fleet = merge_fleets(
        [read_fleet(document, BUILT_IN) for document in parse_documents(read_unpacked(path), str(path))]
    )
    times = {
        (guest.spec.namespace, guest.name): PodTimes(guest.started) for guest in fleet.guests if guest.started
    }  # who never ran arrives with the first that did
    workload = workload_of(path.name.split(".")[0], fleet.hosts, fleet.guests, fleet.tenancy.gangs, times, str(path))
    return with_chosen_hosts(workload, options, cpu_milli=_FLEET_HOST[0], memory_bytes=_FLEET_HOST[1])


class TraceFormat(NamedTuple):
    """One format."""

    summary: str
    read: Callable[[Path, TraceOptions], Workload]
    recognises: Callable[[Path], bool]


FORMATS: dict[str, TraceFormat] = {
    "openb": TraceFormat(
        "GPU pods of Alibaba (2023); also by name: openb, openb/gpuspec33", read_openb, recognizes_openb
    ),
    "azure-packing": TraceFormat(
        "VMs of Azure for packing (2020), as sampled by CoSpot", read_azure_packing, recognizes_azure_packing
    ),
    "azure-vm-v1": TraceFormat("VM arrivals of Azure (2017) in bins of 300 s", read_azure_vm, recognizes_azure_vm),
    "huawei-east-1": TraceFormat("a month of VMs of Huawei Cloud", read_huawei_east, recognizes_huawei_east),
    "huawei-topology": TraceFormat(
        "VM requests with groups and racks, without times", read_huawei_topology, recognizes_huawei_topology
    ),
    "journal": TraceFormat("a recorded run of ours", read_journal_trace, recognizes_journal),
    "fleet": TraceFormat("hosts and guests of ours, without times", _read_fleet_trace, _recognizes_fleet),
    "kubernetes": TraceFormat(
        "nodes and pods as kubectl get -o json|yaml prints them", read_kubernetes, recognizes_kubernetes
    ),
    "table": TraceFormat("a table of ours, CSV or Parquet; see --map", read_table, recognizes_table),
}
_BY_NAME = "openb"  # the one trace that comes with us


def format_of(path: Path) -> str:
    """Return the name of a file's format, by looking at it."""
    found = next((name for name, one in FORMATS.items() if one.recognises(path)), None)
    if found is None:
        read_unpacked(path)  # a damaged file says so
        raise InputError(
            f"{path}: this is no trace that is known by its looks",
            hint=f"name its format by --format, or its columns by --map; formats: {', '.join(FORMATS)}",
        )
    return found


def read_trace(source: str | Path, format: str | None = None, options: TraceOptions | None = None) -> Workload:
    """Read a trace: a file, or openb by name; the format is looked for unless it is named."""
    options = options or TraceOptions()
    if format is not None and format not in FORMATS:
        raise UnknownNameError(f"there is no format {quote(format)}", hint=did_you_mean(format, FORMATS))
    workload = _read(source, format, options)
    if options.hosts_file is not None:
        workload = workload.with_hosts(read_hosts_table(options.hosts_file))
        if too_large := count_oversized_guests(workload):
            options.note(too_large_text(too_large, len(workload)))
    return workload


def _read(source: str | Path, format: str | None, options: TraceOptions) -> Workload:
    path = Path(source)
    name, slash, variant = str(source).partition("/")
    if name == _BY_NAME and format in (None, _BY_NAME) and not path.exists():
        timed = read_timed(variant if slash else options.workload, options.data_dir)
        return with_chosen_hosts(timed, options, cpu_milli=USUAL_HOST[0], memory_bytes=USUAL_HOST[1])
    if not path.exists():
        raise InputError(f"{path}: there is no such file", hint="name a file, or openb")
    if path.is_dir():
        raise InputError(f"{path}: this is a folder", hint="name one of its files")
    chosen = format or ("table" if options.columns else format_of(path))
    if options.columns and chosen != "table":
        raise InputError(f"the columns of format {chosen} cannot be mapped", hint="--map is for tables: --format table")
    return FORMATS[chosen].read(path, options)
