"""The columns of our tables, and whole columns to integers: times in nanoseconds, numbers.

Plain decimals are read by polars, exactly; durations and dates are read one by one, but each distinct text once.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from hostler.config import quote
from hostler.config.times import parse_time
from hostler.errors import InputError, QuantityError
from hostler.model import MAX_AMOUNT
from hostler.sim.traces.tables.files import TableFrame
from hostler.sim.workload import FOREVER, Ints

if TYPE_CHECKING:
    import polars as pl

__all__ = ["GUEST_COLUMNS", "HOST_COLUMNS", "SPEC_COLUMNS", "read_whole_numbers", "times_ns"]

SPEC_COLUMNS = (
    "cpu", "memory", "storage", "gpus", "gpu_milli", "gpu_models", "priority", "tenant", "namespace", "labels", "more",
)  # fmt: skip
GUEST_COLUMNS = ("name", "arrival", "duration", "end", *SPEC_COLUMNS, "gang", "gang_min", "gang_more", "count")
HOST_COLUMNS = (
    "name", "cpu", "memory", "storage", "guests", "gpus", "gpu_model", "labels", "rank", "count", "more",
)  # fmt: skip

_SECOND_NS = 10**9
_PLAIN = r"^([0-9]{1,9}|[1-3][0-9]{9})(\.[0-9]{1,9})?$"  # seconds: 126 years, which stay below 2^62 ns
_FOREVER_WORDS = frozenset({"inf", "forever"})


def read_whole_numbers(frame: TableFrame, name: str, *, empty: int) -> Ints:
    """Return a column of whole numbers, zero or more."""
    import polars as pl

    series = frame.table[name]
    found = series.cast(pl.Int64, strict=False)
    filled = series.is_not_null() & (frame.texts(name) != "")
    wrong = filled & (found.is_null() | (found.cast(pl.Float64) != series.cast(pl.Float64, strict=False)) | (found < 0))
    frame.refuse(wrong, f"{name} is not a whole number from 0", "write a plain number")
    return found.fill_null(empty).to_numpy()


def times_ns(frame: TableFrame, name: str, *, empty: int | None = None) -> Ints:
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
