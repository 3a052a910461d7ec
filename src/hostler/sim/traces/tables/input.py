"""Our own tables, CSV or Parquet, to a workload: vectorised, because a million rows are usual.

A table of hosts stands beside a table of guests, or is named by an option. Guests that ask for the same are found by
polars; only distinct ones become specs in Python. docs/guides/traces.md shows the columns to users. Plain decimals are
read by polars, exactly; durations and dates are read one by one, but each distinct text once.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hostler.config import quote
from hostler.config.times import parse_time
from hostler.errors import DuplicateNameError, InputError, QuantityError
from hostler.model import MAX_AMOUNT, Gang, GuestSpec, Host
from hostler.sim.traces.demand import with_chosen_hosts
from hostler.sim.traces.files import read_csv_header, read_first_bytes
from hostler.sim.traces.options import MAX_HOSTS, TraceOptions
from hostler.sim.traces.tables.files import PARQUET, TableFrame, read_frame
from hostler.sim.traces.tables.rows import gang_of_row, host_of_row, spec_of_row
from hostler.sim.workload import FOREVER, Ints, Workload, numbered_names

if TYPE_CHECKING:
    import polars as pl

__all__ = ["GUEST_COLUMNS", "HOST_COLUMNS", "hosts_path", "read_hosts_table", "read_table", "recognizes_table"]

_SPEC_COLUMNS = (
    "cpu", "memory", "storage", "gpus", "gpu_milli", "gpu_models", "priority", "tenant", "namespace", "labels", "more",
)  # fmt: skip
GUEST_COLUMNS = ("name", "arrival", "duration", "end", *_SPEC_COLUMNS, "gang", "gang_min", "gang_more", "count")
HOST_COLUMNS = (
    "name", "cpu", "memory", "storage", "guests", "gpus", "gpu_model", "labels", "rank", "count", "more",
)  # fmt: skip

_SECOND_NS = 10**9
_PLAIN = r"^([0-9]{1,9}|[1-3][0-9]{9})(\.[0-9]{1,9})?$"  # seconds: 126 years, which stay below 2^62 ns
_FOREVER_WORDS = frozenset({"inf", "forever"})
_MOST_GUESTS = 20_000_000
_USUAL_HOST = (64_000, 256 * 2**30)
_GANG = ("gang", "gang_min", "gang_more")
_PACKED = ".gz"


def _read_whole_numbers(frame: TableFrame, name: str, *, empty: int) -> Ints:
    """Return a column of whole numbers, zero or more."""
    import polars as pl

    series = frame.table[name]
    found = series.cast(pl.Int64, strict=False)
    filled = series.is_not_null() & (frame.texts(name) != "")
    wrong = filled & (found.is_null() | (found.cast(pl.Float64) != series.cast(pl.Float64, strict=False)) | (found < 0))
    frame.refuse(wrong, f"{name} is not a whole number from 0", "write a plain number")
    return found.fill_null(empty).to_numpy()


def _times_ns(frame: TableFrame, name: str, *, empty: int | None = None) -> Ints:
    """Return a column of times or durations in nanoseconds; plain numbers are seconds.

    ``empty`` is what an empty field means; without it an empty field is rejected. With FOREVER, ``inf`` means that too.
    """
    import polars as pl

    series = frame.table[name]
    if series.dtype in (pl.Duration, pl.Datetime):
        found = _of_times(frame, name, series)
    elif series.dtype.is_numeric():
        found = _of_numbers(frame, name, series.cast(pl.Float64), empty)
        if series.dtype.is_integer():
            found = series.cast(pl.Int64) * _SECOND_NS
    else:
        found = _of_texts(frame, name, frame.texts(name).str.strip_chars(), empty)
    if empty is None:
        frame.refuse(found.is_null(), f"{name} is empty", "every guest has one")
    return found.fill_null(empty or 0).to_numpy()


def _of_times(frame: TableFrame, name: str, series: pl.Series) -> pl.Series:
    import polars as pl

    is_duration = series.dtype == pl.Duration
    seconds = series.dt.total_seconds() if is_duration else series.dt.epoch("s")
    wrong = (seconds < 0) | (seconds > MAX_AMOUNT // _SECOND_NS)
    frame.refuse(wrong, f"{name} is negative or beyond 2^62 ns", "times are zero or more")
    found = series.dt.total_nanoseconds() if is_duration else series.dt.epoch("ns")
    frame.refuse(found < 0, f"{name} is negative", "times are zero or more")
    return found


def _of_numbers(frame: TableFrame, name: str, seconds: pl.Series, empty: int | None) -> pl.Series:
    import polars as pl

    frame.refuse(seconds < 0, f"{name} is negative", "times are zero or more")
    is_endless = seconds.is_infinite() & (empty == FOREVER)
    frame.refuse(
        ((seconds * _SECOND_NS > MAX_AMOUNT) | seconds.is_nan()) & ~is_endless,
        f"{name} is no time of ours",
        "in seconds",
    )
    rounded = (
        pl.select(pl.when(is_endless | seconds.is_null()).then(None).otherwise(seconds)).to_series()
    ) * _SECOND_NS
    return rounded.round().cast(pl.Int64)


def _of_texts(frame: TableFrame, name: str, texts: pl.Series, empty: int | None) -> pl.Series:
    import polars as pl

    is_empty = texts.is_null() | (texts == "")
    is_plain = texts.str.contains(_PLAIN).fill_null(value=False)
    parts = texts.str.splitn(".", 2).struct.unnest()
    part = parts["field_1"].fill_null("").str.pad_end(9, "0").cast(pl.Int64, strict=False)
    plain = parts["field_0"].cast(pl.Int64, strict=False) * _SECOND_NS + part
    others = texts.filter(~is_plain & ~is_empty).unique(maintain_order=True).to_list()
    if not others:
        return pl.select(pl.when(is_empty).then(None).otherwise(plain)).to_series()
    values = [_of_text(frame, name, texts, text, empty) for text in others]
    read = texts.replace_strict(others, values, default=None, return_dtype=pl.Int64)
    return pl.select(pl.when(is_plain).then(plain).otherwise(read)).to_series()


def _of_text(frame: TableFrame, name: str, texts: pl.Series, text: str, empty: int | None) -> int:
    """Read one text that is no plain decimal."""
    if text.lower() in _FOREVER_WORDS and empty == FOREVER:
        return FOREVER
    where = frame.where((texts == text).arg_max() or 0)
    try:
        return parse_time(text)
    except QuantityError as error:
        try:
            found = Decimal(text) * _SECOND_NS
        except ArithmeticError:
            hint = 'write seconds, a duration such as "5m", or 2026-01-31T12:00:00Z'
            raise InputError(f"{where}: {name} is {quote(text)}, not a time", hint=hint) from error
    if not found.is_finite() or not 0 <= found <= MAX_AMOUNT:
        problem = "negative" if found.is_finite() and found < 0 else "no time of ours"
        raise QuantityError(f"{where}: {name} {quote(text)} is {problem}", hint="times are zero or more, in seconds")
    return int(found.to_integral_value())


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

    counts = _read_whole_numbers(frame, "count", empty=1)
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
            f"{frame.where(row)}: guest {quote(names[row])} appears twice, first at {frame.where(first)}",
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
    names = [name for name in _SPEC_COLUMNS if name in frame.table.columns]
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
    arrives = _times_ns(frame, "arrival") if "arrival" in frame.table.columns else np.zeros(count, dtype=np.int64)
    if "duration" in frame.table.columns and "end" in frame.table.columns:
        raise InputError(f"{frame.path}:1: there are both duration and end", hint="keep one of the columns")
    if "duration" in frame.table.columns:
        return arrives, _times_ns(frame, "duration", empty=FOREVER)
    if "end" not in frame.table.columns:
        return arrives, np.full(count, FOREVER, dtype=np.int64)
    import polars as pl

    ends = _times_ns(frame, "end", empty=FOREVER)
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
        _read_whole_numbers(frame, "count", empty=1)
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
                    f"{where}: host {quote(name)} appears twice, first at {known[name]}", hint="rename one of them"
                )
            known[name] = where
            hosts.append(host if count == 1 else msgspec.structs.replace(host, name=name, uid=name))
    return tuple(hosts)
