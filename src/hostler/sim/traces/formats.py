"""The formats of traces by name: what each is, how it is read, and how a file of it is told from others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hostler.config import did_you_mean, quote
from hostler.errors import InputError, UnknownNameError
from hostler.sim.traces.azure_packing import read_azure_packing, recognises_azure_packing
from hostler.sim.traces.azure_vm import read_azure_vm, recognises_azure_vm
from hostler.sim.traces.demand import fits_nowhere, placed_on
from hostler.sim.traces.files import read_unpacked
from hostler.sim.traces.fleets import read_fleet_trace, recognises_fleet
from hostler.sim.traces.huawei_east import read_huawei_east, recognises_huawei_east
from hostler.sim.traces.huawei_topology import read_huawei_topology, recognises_huawei_topology
from hostler.sim.traces.journals import read_journal_trace, recognises_journal
from hostler.sim.traces.kubernetes import read_kubernetes, recognises_kubernetes
from hostler.sim.traces.openb import USUAL_HOST, read_openb, read_timed, recognises_openb
from hostler.sim.traces.options import TraceOptions
from hostler.sim.traces.table_hosts import read_hosts_table
from hostler.sim.traces.tables import read_table, recognises_table
from hostler.sim.workload import Workload

__all__ = ["FORMATS", "Format", "format_of", "read_trace"]


class Format(NamedTuple):
    """One format."""

    summary: str
    read: Callable[[Path, TraceOptions], Workload]
    recognises: Callable[[Path], bool]


FORMATS: dict[str, Format] = {
    "openb": Format("GPU pods of Alibaba (2023); also by name: openb, openb/gpuspec33", read_openb, recognises_openb),
    "azure-packing": Format(
        "VMs of Azure for packing (2020), as sampled by CoSpot", read_azure_packing, recognises_azure_packing
    ),
    "azure-vm-v1": Format("VM arrivals of Azure (2017) in bins of 300 s", read_azure_vm, recognises_azure_vm),
    "huawei-east-1": Format("a month of VMs of Huawei Cloud", read_huawei_east, recognises_huawei_east),
    "huawei-topology": Format(
        "VM requests with groups and racks, without times", read_huawei_topology, recognises_huawei_topology
    ),
    "journal": Format("a recorded run of ours", read_journal_trace, recognises_journal),
    "fleet": Format("hosts and guests of ours, without times", read_fleet_trace, recognises_fleet),
    "kubernetes": Format(
        "nodes and pods as kubectl get -o json|yaml prints them", read_kubernetes, recognises_kubernetes
    ),
    "table": Format("a table of ours, CSV or Parquet; see --map", read_table, recognises_table),
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
        workload = workload.on(read_hosts_table(options.hosts_file))
        if too_large := fits_nowhere(workload):
            options.note(f"{too_large:,} of {len(workload):,} guests are larger than every host")
    return workload


def _read(source: str | Path, format: str | None, options: TraceOptions) -> Workload:
    path = Path(source)
    name, slash, variant = str(source).partition("/")
    if name == _BY_NAME and format in (None, _BY_NAME) and not path.exists():
        timed = read_timed(variant if slash else options.workload, options.data_dir)
        return placed_on(timed, options, cpu_milli=USUAL_HOST[0], memory_bytes=USUAL_HOST[1])
    if not path.exists():
        raise InputError(f"{path}: there is no such file", hint="name a file, or openb")
    if path.is_dir():
        raise InputError(f"{path}: this is a folder", hint="name one of its files")
    chosen = format or ("table" if options.columns else format_of(path))
    if options.columns and chosen != "table":
        raise InputError(f"the columns of format {chosen} cannot be mapped", hint="--map is for tables: --format table")
    return FORMATS[chosen].read(path, options)
