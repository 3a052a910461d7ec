"""Two traces of Huawei Cloud: requests with groups and racks, and a month of VMs with times.

**Topology-aware placement**: groups that keep together, apart, or in different fault domains. There are no times:
requests arrive one per second, in order, and stay. NUMA nodes are not modelled: a server is the sum of its two, and
``numa`` is left out. Servers (``PM_res.csv``) and racks (``topology_provider.csv``) are read from the folder of the
requests. What the groups mean in detail is our reading: affinity is to the rack (some groups are larger than any
server), anti-affinity is to the server, and requests of one group but different fault domains share no rack and would
like to be spread over racks.

**Huawei-East-1**: a month of VMs with their arrivals and lifetimes (released with VMAgent; CC BY-NC 4.0). Columns:
``vmid``, ``cpu`` in cores, ``mem`` in GB, ``at`` and ``lt`` in seconds. Rows are in order of arrival. The VMs that
outlived the month are not in the table. Usual hosts in papers: 40 cores and 90 GB.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hostler.errors import InputError
from hostler.model import (
    CPU,
    MEMORY,
    Expression,
    GuestSpec,
    GuestTerm,
    Host,
    Labels,
    Selector,
    Spread,
    amounts,
    labels,
)
from hostler.model.hosts import HOSTNAME
from hostler.model.vocabulary import plural
from hostler.sim.traces.demand import with_chosen_hosts
from hostler.sim.traces.files import CsvColumns, read_columns, read_csv_header, reject_duplicates
from hostler.sim.traces.options import TraceOptions
from hostler.sim.workload import FOREVER, Workload, numbered_names

__all__ = ["RACK", "read_huawei_east", "read_huawei_topology", "recognizes_huawei_east", "recognizes_huawei_topology"]

RACK = "rack"
_GROUP, _DOMAIN = "group", "domain"
_TOPOLOGY_COLUMNS = ("flavor_vcpus", "flavor_ram", "numa", "strategy", "group", "domain")
_SERVER_COLUMNS = ("CPU1", "RAM1", "CPU2", "RAM2")
_RACK_COLUMNS = ("host_id", "rack_id")
_STRATEGIES = ("", "affinity", "anti-affinity", "fault_domain")
_SECOND_NS = 10**9
_GIB = 2**30
_TOPOLOGY_HOSTS = (1710, 80_000, 160 * _GIB)  # the mean of the servers, where their file is missing
_EAST_COLUMNS = ("vmid", "cpu", "mem", "at", "lt")
_EAST_HOST = (40_000, 90 * _GIB)


def recognizes_huawei_topology(path: Path) -> bool:
    """Say whether a file has the columns of this format."""
    return set(_TOPOLOGY_COLUMNS) <= set(read_csv_header(path))


def read_huawei_topology(path: Path, options: TraceOptions) -> Workload:
    """Read one sequence of requests, and the servers beside it."""
    columns = read_columns(path, _TOPOLOGY_COLUMNS)
    is_wide = columns.wholes("numa", most=2) > 1
    if is_wide.any():
        options.note(
            f"NUMA is not modelled: {plural(int(is_wide.sum()), 'guest')} wanted two nodes, placed as any other"
        )
    cpu = columns.amounts("flavor_vcpus", 1000).tolist()
    memory = columns.amounts("flavor_ram", _GIB).tolist()
    groups = [columns.text(name) for name in ("strategy", "group", "domain")]
    known: dict[GuestSpec, int] = {}
    spec_of = [
        known.setdefault(_spec(columns, row, amounts({CPU: cpu[row], MEMORY: memory[row]}), *group), len(known))
        for row, group in enumerate(zip(*groups, strict=True))
    ]
    workload = Workload(
        name=path.name.split(".")[0],
        hosts=_hosts(path.parent, options) if not options.has_hosts else (),
        specs=tuple(known),
        spec_of=np.array(spec_of, dtype=np.int64),
        names=numbered_names("vm", len(columns)),
        arrives_ns=np.arange(len(columns), dtype=np.int64) * _SECOND_NS,
        runs_ns=np.full(len(columns), FOREVER, dtype=np.int64),
    )
    if workload.hosts:
        return workload
    count, cpu_milli, memory_bytes = _TOPOLOGY_HOSTS
    placed = with_chosen_hosts(workload, options, cpu_milli=cpu_milli, memory_bytes=memory_bytes, count=count)
    return placed.with_hosts([_with_hostname(host) for host in placed.hosts])


def _spec(
    columns: CsvColumns, row: int, requests: tuple[tuple[str, int], ...], strategy: str, group: str, domain: str
) -> GuestSpec:
    if strategy not in _STRATEGIES:
        known = ", ".join(_STRATEGIES[1:])
        raise InputError(f"{columns.where(row)}: strategy is {strategy[:40]!r}", hint=f"empty, or one of {known}")
    if not strategy:
        return GuestSpec(requests=requests)
    if not group or (strategy == "fault_domain" and not domain):
        raise InputError(
            f"{columns.where(row)}: a guest with a strategy has no group or no domain", hint="fill in both"
        )
    name = f"{strategy}-{group}"  # numbers of groups are used again by other strategies
    own: Labels = labels({_GROUP: name})
    all_of = Selector((Expression(_GROUP, "In", (name,)),))
    if strategy == "affinity":
        return GuestSpec(requests=requests, labels=own, affinity=(GuestTerm(RACK, all_of),))
    if strategy == "anti-affinity":
        return GuestSpec(requests=requests, labels=own, anti_affinity=(GuestTerm(HOSTNAME, all_of),))
    others = Selector((*all_of.expressions, Expression(_DOMAIN, "NotIn", (domain,))))
    return GuestSpec(
        requests=requests,
        labels=labels({_GROUP: name, _DOMAIN: domain}),
        anti_affinity=(GuestTerm(RACK, others),),
        spread=(Spread(RACK, selector=all_of, is_hard=False),),
    )


def _hosts(folder: Path, options: TraceOptions) -> tuple[Host, ...]:
    """Read servers and racks from the folder of the trace; none where there are none."""
    servers_at, racks_at = _beside(folder, "PM_res.csv"), _beside(folder, "topology_provider.csv")
    if servers_at is None:
        options.note("there is no PM_res.csv beside the trace: the hosts are equal ones, and have no racks")
        return ()
    servers = read_columns(servers_at, _SERVER_COLUMNS)
    cpu = servers.amounts("CPU1", 1000) + servers.amounts("CPU2", 1000)
    memory = servers.amounts("RAM1", _GIB) + servers.amounts("RAM2", _GIB)
    racks: list[str] = []
    names = numbered_names("host", len(servers))
    if racks_at is not None:
        topology = read_columns(racks_at, _RACK_COLUMNS)
        reject_duplicates(topology, "host_id")
        if len(topology) < len(servers):
            raise InputError(f"{racks_at}: it has fewer hosts than {servers_at}", hint="fetch both again")
        names, racks = list(topology.text("host_id")), list(topology.text("rack_id"))
    return tuple(
        Host(
            name=names[row],
            uid=names[row],
            capacity=amounts({CPU: int(cpu[row]), MEMORY: int(memory[row])}),
            labels=labels({HOSTNAME: names[row], **({RACK: racks[row]} if racks else {})}),
        )
        for row in range(len(servers))
    )


def _with_hostname(host: Host) -> Host:
    return Host(name=host.name, uid=host.uid, capacity=host.capacity, labels=((HOSTNAME, host.name),))


def _beside(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def recognizes_huawei_east(path: Path) -> bool:
    """Say whether a file has the columns of this format."""
    return set(_EAST_COLUMNS) <= set(read_csv_header(path))


def read_huawei_east(path: Path, options: TraceOptions) -> Workload:
    """Read the table of VMs."""
    columns = read_columns(path, _EAST_COLUMNS)
    reject_duplicates(columns, "vmid")
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
    return with_chosen_hosts(workload, options, cpu_milli=_EAST_HOST[0], memory_bytes=_EAST_HOST[1])
