"""Our own tables, CSV or Parquet, to a workload: vectorised, because a million rows are usual.

A table of hosts stands beside a table of guests, or is named by an option. Guests that ask for the same are found by
polars; only distinct ones become specs in Python. The columns stand in ``columns``; docs/guides/traces.md shows them to
users.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hostler.config import quote
from hostler.errors import DuplicateNameError, InputError
from hostler.model import Gang, GuestSpec, Host
from hostler.sim.traces.demand import with_chosen_hosts
from hostler.sim.traces.files import read_csv_header, read_first_bytes
from hostler.sim.traces.options import MAX_HOSTS, TraceOptions
from hostler.sim.traces.tables.columns import GUEST_COLUMNS, HOST_COLUMNS, SPEC_COLUMNS, read_whole_numbers, times_ns
from hostler.sim.traces.tables.files import PARQUET, TableFrame, read_frame
from hostler.sim.traces.tables.rows import gang_of_row, host_of_row, spec_of_row
from hostler.sim.workload import FOREVER, Ints, Workload, numbered_names

if TYPE_CHECKING:
    import polars as pl

__all__ = ["hosts_path", "read_hosts_table", "read_table", "recognizes_table"]

_MOST_GUESTS = 20_000_000
_USUAL_HOST = (64_000, 256 * 2**30)
_GANG = ("gang", "gang_min", "gang_more")
_PACKED = ".gz"


def recognizes_table(path: Path) -> bool:
    """Say whether a file is Parquet, or CSV with two of our columns (reading it reports unknown ones)."""
    return read_first_bytes(path)[:4] == PARQUET or len(set(read_csv_header(path)) & set(GUEST_COLUMNS)) > 1


def read_table(path: Path, options: TraceOptions) -> Workload:
    """Read guests from a table, and hosts from the table beside it where there is one."""
    frame = read_frame(path, GUEST_COLUMNS, options.columns)
    guests = _repeated(frame)
    specs, spec_of = _specs(guests)
    gangs, gang_of = _gangs(guests, specs, spec_of)
    arrives, runs = _times(guests)
    workload = Workload(
        name=path.name.split(".")[0],
        hosts=(),
        specs=specs,
        spec_of=spec_of,
        names=_names(guests),
        arrives_ns=arrives,
        runs_ns=runs,
        gangs=gangs,
        gang_of=gang_of,
    ).by_arrival()
    beside = _hosts_beside(path) if not options.has_hosts else None
    if beside is not None:
        workload = workload.with_hosts(read_hosts_table(beside))
    return with_chosen_hosts(workload, options, cpu_milli=_USUAL_HOST[0], memory_bytes=_USUAL_HOST[1])


def _repeated(frame: TableFrame) -> TableFrame:
    """Repeat the rows that stand for several guests, and number their names from 0, as a fleet file does."""
    if "count" not in frame.table.columns:
        return frame
    import polars as pl

    counts = read_whole_numbers(frame, "count", empty=1)
    total = float(counts.sum(dtype=np.float64))
    if total > _MOST_GUESTS:
        raise InputError(f"{frame.path}: it has {total:,.0f} guests", hint=f"at most {_MOST_GUESTS:,}")
    rows = np.repeat(np.arange(len(counts)), counts)
    repeated = TableFrame(frame.path, frame.table[rows].drop("count"), frame.lines[rows], is_csv=frame.is_csv)
    if "name" not in repeated.table.columns:
        return repeated
    number = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    name = pl.col("name").cast(pl.String)
    many = pl.Series(counts[rows] > 1)
    numbered_name = pl.when(many).then(name + "-" + pl.Series(number).cast(pl.String)).otherwise(name)
    return repeated._replace(table=repeated.table.with_columns(numbered_name.alias("name")))


def _names(frame: TableFrame) -> list[str]:
    """Return the names of guests. Reject duplicates, even in different namespaces."""
    if "name" not in frame.table.columns:
        return numbered_names("guest", len(frame.table))
    names = frame.texts("name")
    frame.refuse(names.is_null() | (names == ""), "the guest has no name", "name all guests, or leave the column out")
    again = ~names.is_first_distinct()
    if again.any():
        row = again.arg_max() or 0
        first = (names == names[row]).arg_max() or 0
        raise DuplicateNameError(
            f"{frame.where(row)}: guest {quote(names[row])} stands twice, first at {frame.where(first)}",
            hint="rename or remove one of them",
        )
    return names.to_list()


def _distinct(frame: TableFrame, names: list[str]) -> tuple[pl.DataFrame, Ints]:
    """Return the distinct rows of some columns with the first row of each, and which of them each row has."""
    import polars as pl

    part = frame.table.select(pl.int_range(pl.len()).alias("row"), *names)
    unique = part.unique(subset=names, keep="first", maintain_order=True).with_row_index("number")
    found = part.join(unique.select("number", *names), on=names, how="left", nulls_equal=True, maintain_order="left")
    return unique, found["number"].cast(pl.Int64).to_numpy()


def _specs(frame: TableFrame) -> tuple[tuple[GuestSpec, ...], Ints]:
    names = [name for name in SPEC_COLUMNS if name in frame.table.columns]
    if not names:
        raise InputError(f"{frame.path}:1: there is no column of what guests ask for", hint="such as cpu or memory")
    unique, row_kind = _distinct(frame, names)
    known: dict[GuestSpec, int] = {}
    numbers = [
        known.setdefault(spec_of_row(row, frame.where(int(str(row["row"])))), len(known))
        for row in unique.iter_rows(named=True)
    ]
    return tuple(known), np.array(numbers, dtype=np.int64)[row_kind]


def _gangs(frame: TableFrame, specs: tuple[GuestSpec, ...], spec_of: Ints) -> tuple[tuple[Gang, ...], Ints]:
    """Return the gangs, and which of them each guest is in; the least number of members is all, unless it is said."""
    names = [name for name in _GANG if name in frame.table.columns]
    if "gang" not in names or not (frame.table["gang"].fill_null("") != "").any():
        return (), np.zeros(0, dtype=np.int64)
    import polars as pl

    spaces = np.array([spec.namespace for spec in specs], dtype=object)[spec_of]
    table = frame.table.select(*names).with_columns(pl.Series("namespace", spaces, dtype=pl.String))
    unique, row_kind = _distinct(frame._replace(table=table), [*names, "namespace"])
    members = np.bincount(row_kind, minlength=len(unique)).tolist()
    known: dict[str, tuple[int, Gang]] = {}
    numbers = []
    for row in unique.iter_rows(named=True):
        where = frame.where(int(str(row["row"])))
        gang = gang_of_row(row, members[int(str(row["number"]))], where)
        if gang is None:
            numbers.append(-1)
            continue
        number, first = known.setdefault(gang.key, (len(known), gang))
        if first != gang:
            raise InputError(
                f"{where}: gang {quote(gang.name)} differs from what an earlier row says of it",
                hint="gang_min and gang_more are the same in all its rows",
            )
        numbers.append(number)
    return tuple(gang for _, gang in known.values()), np.array(numbers, dtype=np.int64)[row_kind]


def _times(frame: TableFrame) -> tuple[Ints, Ints]:
    count = len(frame.table)
    arrives = times_ns(frame, "arrival") if "arrival" in frame.table.columns else np.zeros(count, dtype=np.int64)
    if "duration" in frame.table.columns and "end" in frame.table.columns:
        raise InputError(f"{frame.path}:1: there are both duration and end", hint="keep one of the columns")
    if "duration" in frame.table.columns:
        return arrives, times_ns(frame, "duration", empty=FOREVER)
    if "end" not in frame.table.columns:
        return arrives, np.full(count, FOREVER, dtype=np.int64)
    import polars as pl

    ends = times_ns(frame, "end", empty=FOREVER)
    is_early = (ends != FOREVER) & (ends < arrives)
    frame.refuse(pl.Series(is_early), "the guest ends before it arrives", "end is a time, not a duration")
    return arrives, np.where(ends == FOREVER, FOREVER, ends - arrives)


def hosts_path(path: Path) -> Path:
    """Return where the hosts of a table of guests stand: ``trace.csv`` has ``trace.hosts.csv``."""
    name = path.name.removesuffix(_PACKED)
    stem, dot, suffix = name.rpartition(".")
    return path.with_name(f"{stem}.hosts.{suffix}" if dot else f"{name}.hosts")


def _hosts_beside(path: Path) -> Path | None:
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
