"""Azure's traces for packing (Protean, 2020) with the sizes that CoSpot (2022) worked out.

Times are in days. A negative start means that the VM ran before the trace began: it arrives at 0 and stays for what was
left of it. The end ``inf`` means never. ``vmTypeId`` is 0 or 1 and behaves like the original's priority (1 is low);
that is our reading. Cores and RAM are on a scale of their own; so are the servers in the file beside the trace.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np

from hostler.errors import InputError
from hostler.model import CPU, MEMORY, GuestSpec, amounts
from hostler.model.vocabulary import plural
from hostler.sim.traces.demand import with_chosen_hosts
from hostler.sim.traces.files import CsvColumns, read_columns, read_csv_header, read_unpacked, reject_duplicates
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import FOREVER, Ints, Workload

__all__ = ["read_azure_packing", "recognizes_azure_packing"]

_COLUMNS = ("vmId", "tenantId", "cores", "ram", "vmTypeId", "starttime", "endtime")
_SERVERS_FILE = "server_vm_cores_ram.json"
_SERVER = re.compile(r"server_(cores|ram)\[([0-9]+)\]")
_USUAL_SERVER = (6400.0, 3072.0)  # type 10 of the solution: the smallest that holds every VM of the samples
_DAY_NS = 86_400 * 10**9
_GIB = 2**30


def recognizes_azure_packing(path: Path) -> bool:
    """Say whether a file has the columns of this format."""
    return set(_COLUMNS) <= set(read_csv_header(path))


def read_azure_packing(path: Path, options: TraceOptions) -> Workload:
    """Read one sample of the trace."""
    columns = read_columns(path, _COLUMNS)
    reject_duplicates(columns, "vmId")
    low = columns.wholes("vmTypeId", most=1)
    sizes = (columns.amounts("cores", 1000), columns.amounts("ram", _GIB))
    arrives, runs, is_kept = _times(columns, options)
    specs, spec_of = _specs(columns, sizes, low, options.tenants)
    guests = np.flatnonzero(is_kept)
    names = [f"vm-{name}" for name in columns.text("vmId")]
    workload = (
        Workload(path.name.split(".")[0], (), specs, spec_of, names, arrives, runs).select_guests(guests).by_arrival()
    )
    cores, ram = _server_for(columns, path.parent / _SERVERS_FILE)
    return with_chosen_hosts(workload, options, cpu_milli=int(cores * 1000), memory_bytes=int(ram * _GIB))


def _times(columns: CsvColumns, options: TraceOptions) -> tuple[Ints, Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    start, end = columns.numbers("starttime"), columns.numbers("endtime")
    columns.refuse(end < start, "the VM ends before it starts", "endtime must not be less than starttime")
    columns.refuse(np.isinf(start) | (end == -np.inf), "a time is infinite", "only an endtime may be inf")
    is_kept = end > 0
    if not is_kept.all():
        options.note(f"left out: {plural(int((~is_kept).sum()), 'VM')} that ended before the trace begins")
    begin = np.maximum(start, 0.0)
    columns.check_amounts("starttime", begin * _DAY_NS)
    is_bounded = np.isfinite(end) & is_kept
    columns.check_amounts("endtime", np.where(is_bounded, end, 0.0) * _DAY_NS)
    arrives = np.rint(begin * _DAY_NS).astype(np.int64)
    ends = np.rint(np.where(is_bounded, end, 0.0) * _DAY_NS).astype(np.int64)
    return arrives, np.where(is_bounded, np.maximum(ends - arrives, 0), FOREVER), is_kept


def _specs(
    columns: CsvColumns, sizes: tuple[Ints, Ints], low: Ints, has_tenants: bool
) -> tuple[tuple[GuestSpec, ...], Ints]:
    """Return the distinct specs, and which of them each VM has."""
    tenants, tenant_of = np.unique(np.array(columns.text("tenantId"), dtype=np.str_), return_inverse=True)
    if not has_tenants:
        tenant_of = np.zeros_like(tenant_of)
    rows, spec_of = np.unique(np.stack((*sizes, low, tenant_of), axis=1), axis=0, return_inverse=True)
    specs = tuple(
        GuestSpec(
            requests=amounts({CPU: cpu, MEMORY: memory}),
            priority=0 if is_low else 1,
            tenant=f"tenant-{tenants[tenant]}" if has_tenants else "",
        )
        for cpu, memory, is_low, tenant in rows.tolist()
    )
    return specs, spec_of.astype(np.int64).reshape(-1)


def _server_for(columns: CsvColumns, path: Path) -> tuple[float, float]:
    """Return cores and RAM of the smallest server that holds every VM, else of the one that holds most sizes."""
    servers = _servers(path) if path.is_file() else [_USUAL_SERVER]
    sizes = set(zip(columns.numbers("cores").tolist(), columns.numbers("ram").tolist(), strict=True))

    def held(server: tuple[float, float]) -> int:
        return sum(cores <= server[0] and ram <= server[1] for cores, ram in sizes)

    return max(servers, key=lambda server: (held(server), -server[0], -server[1]))


def _servers(path: Path) -> list[tuple[float, float]]:
    try:
        parts = msgspec.json.decode(read_unpacked(path), type=list[dict[str, float]])
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: the servers cannot be read: {error}", hint="fetch the file again") from None
    found: dict[str, dict[str, float]] = {"cores": {}, "ram": {}}
    for part in parts:
        for key, value in part.items():
            if match := _SERVER.fullmatch(key):
                found[match[1]][match[2]] = value
    servers = [(cores, found["ram"][kind]) for kind, cores in found["cores"].items() if kind in found["ram"]]
    if not servers:
        raise InputError(f"{path}: there are no servers in it", hint="name sizes by --host-cpu and --host-memory")
    return servers
