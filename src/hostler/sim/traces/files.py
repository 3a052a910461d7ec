"""Files of foreign traces: packed or not, as columns of text that remember their lines.

Files are untrusted: truncated or wrongly encoded data and wrong numbers are rejected with file and line.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hostler.config import did_you_mean, quote
from hostler.errors import DuplicateNameError, InputError, QuantityError
from hostler.model import MAX_AMOUNT
from hostler.sim.workload import Ints

__all__ = [
    "CsvColumns",
    "decode_text",
    "read_columns",
    "read_csv_header",
    "read_first_bytes",
    "read_unpacked",
    "reject_duplicates",
]

MOST_BYTES = 1 << 30  # of one file, unpacked
_HEAD_BYTES = 1 << 16  # enough to tell formats apart
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


def read_unpacked(path: Path) -> bytes:
    """Return the bytes of a file, unpacked where it is packed by gzip."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: this is a folder", hint="name one of its files")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: it is larger than 1 GiB", hint="split it")
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        problem = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"{path}: cannot be read: {problem}", hint="check the path and its permissions") from None
    if raw[:2] == _GZIP:
        raw = _unpacked(raw, path)
    elif raw and path.suffix == ".gz":
        raise InputError(f"{path}: it is not packed by gzip, as its name says", hint="fetch it again, or rename it")
    if not raw.strip():
        raise InputError(f"{path}: the file is empty", hint="a trace has a line with the names of its columns")
    return raw.removeprefix(_BOM)


def _unpacked(raw: bytes, path: Path) -> bytes:
    parts: list[bytes] = []
    room = MOST_BYTES
    try:
        while raw:  # a packed file may have several members
            decoder = zlib.decompressobj(wbits=31)
            parts.append(decoder.decompress(raw, room))
            room -= len(parts[-1])
            if decoder.unconsumed_tail or room <= 0:
                raise InputError(f"{path}: it is larger than 1 GiB when unpacked", hint="split it")
            if not decoder.eof:
                raise InputError(f"{path}: it ends in the middle: the file is truncated", hint="fetch it again")
            raw = decoder.unused_data.lstrip(b"\0")
    except zlib.error as error:
        raise InputError(f"{path}: it cannot be unpacked: {error}", hint="fetch it again") from None
    return b"".join(parts)


def read_first_bytes(path: Path) -> bytes:
    """Return the beginning of a file, unpacked, to see what it is; nothing where it cannot be read."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(_HEAD_BYTES)
        return zlib.decompressobj(wbits=31).decompress(raw, _HEAD_BYTES) if raw[:2] == _GZIP else raw
    except (OSError, ValueError, zlib.error):
        return b""


def read_csv_header(path: Path) -> tuple[str, ...]:
    """Return the names of a CSV file's columns; nothing where there are none."""
    line = read_first_bytes(path).removeprefix(_BOM).split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r")
    try:
        return tuple(next(csv.reader([line]), ()))
    except csv.Error:
        return ()


def decode_text(raw: bytes, path: Path) -> str:
    """Return the text of a file; it must be UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: the file is not UTF-8 text", hint="save it as UTF-8") from None


class CsvColumns:
    """A CSV file as columns of text, with the line of each row; it has at least one."""

    def __init__(self, path: Path, names: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int]) -> None:
        self.path = path
        self.lines = lines
        self._texts = dict(zip(names, zip(*rows, strict=True), strict=True))

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def where(self, row: int) -> str:
        """Return file and line of a row."""
        return f"{self.path}:{self.lines[row]}"

    def text(self, name: str) -> Sequence[str]:
        """Return a column as it stands."""
        return self._texts[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column of numbers; ``inf`` is one."""
        texts = self._texts[name]
        try:
            found = np.array(texts, dtype=np.str_).astype(np.float64)
        except ValueError:
            found = np.array([self._number(name, row) for row in range(len(texts))], dtype=np.float64)
        if np.isnan(found).any():
            row = int(np.isnan(found).argmax())
            raise InputError(
                f"{self.where(row)}: {name} is {quote(texts[row])}, not a number", hint="write a plain number"
            )
        return found

    def amounts(self, name: str, per_unit: int) -> Ints:
        """Return a column of amounts in their unit, rounded up; negative and absurd ones are rejected."""
        found = self.numbers(name) * per_unit
        self.check_amounts(name, found)
        return np.ceil(np.round(found, 3)).astype(np.int64)  # 0.1 x 1000 is a little more than 100

    def times(self, name: str, per_unit: int) -> Ints:
        """Return a column of times in nanoseconds, rounded to the next one."""
        found = self.numbers(name) * per_unit
        self.check_amounts(name, found)
        return np.rint(found).astype(np.int64)

    def wholes(self, name: str, most: int = MAX_AMOUNT) -> Ints:
        """Return a column of whole numbers from 0 to a limit."""
        found = self.numbers(name)
        wrong = ~((found >= 0) & (found <= most)) | (found != np.floor(found))
        if wrong.any():
            row = int(wrong.argmax())
            shown = quote(self._texts[name][row])
            raise InputError(
                f"{self.where(row)}: {name} is {shown}, not a whole number from 0 to {most}",
                hint="write a plain number",
            )
        return found.astype(np.int64)

    def check_amounts(self, name: str, found: NDArray[np.float64]) -> None:
        """Reject amounts below 0 or beyond 2^62."""
        wrong = ~((found >= 0) & (found <= MAX_AMOUNT))
        if wrong.any():
            row = int(wrong.argmax())
            problem = "negative" if found[row] < 0 else "larger than 2^62 units"
            raise QuantityError(
                f"{self.where(row)}: {name} {quote(self._texts[name][row])} is {problem}",
                hint="amounts and times are zero or more",
            )

    def refuse(self, wrong: NDArray[np.bool_], problem: str, hint: str = "") -> None:
        """Reject the first row for which something is wrong."""
        if wrong.any():
            raise InputError(f"{self.where(int(wrong.argmax()))}: {problem}", hint=hint)

    def _number(self, name: str, row: int) -> float:
        text = self._texts[name][row]
        try:
            return float(text)
        except ValueError:
            raise InputError(
                f"{self.where(row)}: {name} is {quote(text)}, not a number", hint="write a plain number"
            ) from None


def read_columns(path: Path, wanted: Sequence[str]) -> CsvColumns:
    """Read a CSV file that must have certain columns, and every row all of them."""
    stream = io.StringIO(decode_text(read_unpacked(path), path), newline="")
    reader = csv.reader(stream, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        names = next(reader)
        _check_names(names, wanted, path)
        for row in reader:
            if len(row) != len(names):
                if not row:
                    continue
                raise InputError(
                    f"{path}:{reader.line_num}: the row has {len(row)} fields, but there are {len(names)} columns",
                    hint="is the file truncated?",
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: this is not CSV: {error}", hint="is the file truncated?") from None
    if not rows:
        raise InputError(f"{path}: there are no rows", hint="a trace has at least one guest")
    return CsvColumns(path, names, rows, lines)


def _check_names(names: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        hint = did_you_mean(missing[0], names) or f"its columns are {', '.join(names[:20])}"
        raise InputError(f"{path}:1: there is no column {', '.join(missing)}", hint=hint)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateNameError(f"{path}:1: there are two columns {quote(twice)}", hint="rename one of them")


def reject_duplicates(columns: CsvColumns, name: str) -> None:
    """Reject a column of names in which one appears twice."""
    texts = columns.text(name)
    if len(set(texts)) == len(texts):
        return
    seen: dict[str, int] = {}
    for row, text in enumerate(texts):
        if (first := seen.setdefault(text, row)) != row:
            raise DuplicateNameError(
                f"{columns.where(row)}: {name} {quote(text)} appears twice, first in line {columns.lines[first]}",
                hint="rename or remove one of them",
            )
