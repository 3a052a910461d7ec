"""Our own table of hosts, CSV or Parquet; it stands beside a table of guests, or is named by an option."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from hostler.config import quote
from hostler.errors import DuplicateNameError, InputError
from hostler.model import Host
from hostler.sim.traces.options import MAX_HOSTS
from hostler.sim.traces.tables.columns import HOST_COLUMNS, read_whole_numbers
from hostler.sim.traces.tables.files import read_frame
from hostler.sim.traces.tables.rows import host_of_row

__all__ = ["hosts_beside", "hosts_path", "read_hosts_table"]

_PACKED = ".gz"


def hosts_path(path: Path) -> Path:
    """Return where the hosts of a table of guests stand: ``trace.csv`` has ``trace.hosts.csv``."""
    name = path.name.removesuffix(_PACKED)
    stem, dot, suffix = name.rpartition(".")
    return path.with_name(f"{stem}.hosts.{suffix}" if dot else f"{name}.hosts")


def hosts_beside(path: Path) -> Path | None:
    """Return the table of hosts beside a table of guests, if there is one."""
    beside = hosts_path(path)
    return next((one for one in (beside, beside.with_name(beside.name + _PACKED)) if one.is_file()), None)


def read_hosts_table(path: Path) -> tuple[Host, ...]:
    """Read hosts from a table."""
    frame = read_frame(path, HOST_COLUMNS, {})
    if "name" not in frame.table.columns:
        raise InputError(f"{path}:1: there is no column name", hint="every host has a name")
    counts = (
        read_whole_numbers(frame, "count", empty=1)
        if "count" in frame.table.columns
        else np.ones(len(frame.lines), np.int64)
    )
    if counts.sum(dtype=np.float64) > MAX_HOSTS:
        raise InputError(f"{path}: it has more than {MAX_HOSTS:,} hosts", hint="check the column count")
    hosts: list[Host] = []
    known: dict[str, str] = {}
    for row, (values, count) in enumerate(zip(frame.table.iter_rows(named=True), counts.tolist(), strict=True)):
        where = frame.where(row)
        host = host_of_row(values, where)
        for name in [host.name] if count == 1 else [f"{host.name}-{number}" for number in range(count)]:
            if name in known:
                raise DuplicateNameError(
                    f"{where}: host {quote(name)} stands twice, first at {known[name]}", hint="rename one of them"
                )
            known[name] = where
            hosts.append(host if count == 1 else msgspec.structs.replace(host, name=name, uid=name))
    return tuple(hosts)
