"""Where data files are: in a folder that the user names, in the package, or in the repository's folder ``data``."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path

from hostler.errors import InputError

__all__ = ["find_data", "read_rows"]

_IN_PACKAGE = Path(__file__).parent / "data"
_IN_REPOSITORY = Path(__file__).parents[3] / "data"
_MOST_BYTES = 1 << 30  # of one table, unpacked


def find_data(name: str, data_dir: Path | None = None) -> Path:
    """Return the path of a data file such as ``openb/gpu_nodes.csv.gz``."""
    folders = [data_dir] if data_dir is not None else []
    for folder in (*folders, _IN_PACKAGE, _IN_REPOSITORY):
        for path in (folder / name, folder / Path(name).name):
            if path.is_file():
                return path
    raise InputError(
        f"there is no data file {name}",
        hint="it is in the folder data of the repository; name that folder with --data-dir",
    )


def read_rows(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Read a CSV file, packed or not; it must have the columns, and every row all of them."""
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = _unpacked(raw)
        text = raw.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{path}:1: there is no column {', '.join(missing)}")
    rows = []
    try:
        for row in reader:
            if None in row or None in row.values():
                raise InputError(f"{path}:{reader.line_num}: the row has not as many fields as there are columns")
            rows.append(row)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}") from error
    return rows


def _unpacked(raw: bytes) -> bytes:
    decoder = zlib.decompressobj(wbits=31)
    text = decoder.decompress(raw, _MOST_BYTES)
    if decoder.unconsumed_tail:
        raise EOFError("it is larger than 1 GiB when unpacked")
    if not decoder.eof:
        raise EOFError("it ends in the middle: the file is truncated")
    return text
