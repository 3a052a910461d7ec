"""CSV and Parquet files to polars, with the line of each row; polars is in the extra ``hostler[sim]``.

polars fills short rows with nothing and does not count lines, so the fields of every row are counted here first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hostler.config import did_you_mean, quote
from hostler.errors import DuplicateNameError, InputError, UnavailableError
from hostler.sim.traces.files import decode_text, read_first_bytes, read_unpacked
from hostler.sim.workload import Ints

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PARQUET", "TableFrame", "read_frame", "require_polars"]

PARQUET = b"PAR1"  # what such a file begins with
_QUOTE, _COMMA, _NEWLINE, _RETURN = b'",\n\r'


class TableFrame(NamedTuple):
    """A table, and the line (of CSV) or row (of Parquet) at which each row stands."""

    path: Path
    table: pl.DataFrame
    lines: Ints
    is_csv: bool

    def where(self, row: int) -> str:
        """Say where a row stands."""
        return f"{self.path}:{self.lines[row]}" if self.is_csv else f"{self.path}: row {self.lines[row]}"

    def texts(self, name: str) -> pl.Series:
        """Return a column as text."""
        import polars as pl

        return self.table[name].cast(pl.String)

    def refuse(self, wrong: pl.Series, problem: str, hint: str = "") -> None:
        """Reject the first row for which something is wrong."""
        if wrong.any():
            raise InputError(f"{self.where(wrong.fill_null(value=False).arg_max() or 0)}: {problem}", hint=hint)


def require_polars() -> None:
    """Say which extra is missing where there is no polars."""
    try:
        import polars  # noqa: F401
    except ImportError:
        raise UnavailableError(
            "tables need polars, which is not installed", hint="pip install 'hostler[sim]'"
        ) from None


def read_frame(path: Path, known: Sequence[str], columns: Mapping[str, str]) -> TableFrame:
    """Read a table and give its columns our names; without a mapping, unknown columns are rejected."""
    require_polars()
    frame = _read_parquet(path) if read_first_bytes(path)[:4] == PARQUET else _read_csv(path)
    if not len(frame.table):
        raise InputError(f"{path}: there are no rows", hint="a table has a line with names, then one for each row")
    names = frame.table.columns
    for ours, theirs in columns.items():
        if ours not in known:
            raise InputError(f"there is no column {quote(ours)} of ours", hint=did_you_mean(ours, known))
        if theirs not in names:
            raise InputError(f"{path}:1: there is no column {quote(theirs)}", hint=did_you_mean(theirs, names))
    if columns:
        wanted = {name: name for name in names if name in known} | dict(columns)
        return frame._replace(table=frame.table.select(frame.table[theirs].alias(o) for o, theirs in wanted.items()))
    for name in names:
        if name not in known:
            hint = f"{did_you_mean(name, known)} With --map OURS={name} it gets one of our names."
            raise InputError(f"{path}:1: column {quote(name)} is not known", hint=hint)
    return frame


def _read_parquet(path: Path) -> TableFrame:
    import polars as pl

    try:
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        problem = str(error).splitlines()[0] if str(error) else "it is damaged"
        raise InputError(f"{path}: this is not a whole Parquet file: {problem}", hint="fetch it again") from None
    return TableFrame(path, table, np.arange(1, len(table) + 1, dtype=np.int64), is_csv=False)


def _read_csv(path: Path) -> TableFrame:
    import polars as pl

    raw = read_unpacked(path)
    decode_text(raw, path)
    lines, is_blank = _check_rows(raw, path)
    try:
        table = pl.read_csv(raw, infer_schema=False, raise_if_empty=False, encoding="utf8")
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: this is not CSV: {str(error).splitlines()[0]}", hint="is it truncated?") from None
    if len(table) == len(lines):
        table, lines = table.filter(~pl.Series(is_blank)), lines[~is_blank]
    else:
        lines = lines[~is_blank]
    if len(table) != len(lines):
        raise InputError(f"{path}: its rows cannot be told apart", hint="quote fields with line breaks")
    return TableFrame(path, table, lines, is_csv=True)


def _check_rows(raw: bytes, path: Path) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Check that every row has as many fields as there are columns; return the rows' lines, and which are blank."""
    bytes_ = np.frombuffer(raw if raw.endswith(b"\n") else raw + b"\n", dtype=np.uint8)
    is_outside = np.ones(len(bytes_), dtype=np.bool_)
    if b'"' in raw:
        inside = np.bitwise_xor.accumulate((bytes_ == _QUOTE).view(np.uint8))
        if inside[-1]:
            raise InputError(f"{path}: a quoted field has no end", hint="is the file truncated?")
        is_outside = inside == 0
    ends = np.flatnonzero((bytes_ == _NEWLINE) & is_outside)
    commas = np.flatnonzero((bytes_ == _COMMA) & is_outside)
    fields = np.diff(np.searchsorted(commas, ends), prepend=0) + 1
    sizes = np.diff(ends, prepend=-1) - 1
    is_blank = (sizes == 0) | ((sizes == 1) & (bytes_[np.maximum(ends - 1, 0)] == _RETURN))
    newlines = np.flatnonzero(bytes_ == _NEWLINE) if b'"' in raw else ends
    lines = np.searchsorted(newlines, np.concatenate(([0], ends[:-1] + 1))).astype(np.int64) + 1
    wrong = (fields != fields[0]) & ~is_blank
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{path}:{lines[row]}: the row has {fields[row]} fields, but there are {fields[0]} columns",
            hint="is the file truncated?",
        )
    _refuse_twice(raw, int(ends[0]), path)
    return lines[1:], is_blank[1:]


def _refuse_twice(raw: bytes, end: int, path: Path) -> None:
    """Reject a header that names a column twice (polars would rename it)."""
    names = [name.strip().strip('"') for name in raw[:end].decode("utf-8", "replace").split(",")]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DuplicateNameError(f"{path}:1: there are two columns {quote(twice)}", hint="rename one of them")
