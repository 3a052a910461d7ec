"""Rows of figures as JSON, CSV or Parquet, to a file or to standard output."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from hostler.cli.files import STANDARD_STREAM, atomic_file
from hostler.cli.options import FILE, output_option
from hostler.errors import InputError

__all__ = ["FORMATS", "chosen_format", "rows_options", "write_rows"]

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, object]

FORMATS = ("table", "json", "csv", "parquet")


def rows_options() -> Callable[[F], F]:
    """Add ``-o FORMAT`` and ``-O FILE``."""

    def add(command: F) -> F:
        file = click.option(
            "-O",
            "--output-file",
            metavar="FILE",
            type=FILE,
            default=None,
            help="Write to a file, which appears when it is whole; its ending chooses the format, unless -o does.",
        )
        return output_option(*FORMATS)(file(command))

    return add


def chosen_format(output: str, file: str | None) -> str:
    """Return the format; with a file and no format, its ending decides."""
    ending = file.rpartition(".")[2].lower() if file else ""
    if file and output == "table":
        if ending not in FORMATS[1:]:
            raise click.UsageError(f"the ending of {file!r} says no format: give -o json, csv or parquet")
        return ending
    if output == "parquet" and (file is None or file == STANDARD_STREAM):
        raise click.UsageError("Parquet is no text: name a file with -O")
    return output


def write_rows(rows: Sequence[Row], output: str, file: str | None) -> None:
    """Write rows of equal or different keys in a format that is no table."""
    write = {"json": _json, "csv": _csv, "parquet": _parquet}[output]
    content = write(rows)
    if file is None:
        click.echo(content, nl=False)
        return
    with atomic_file(file) as put:
        put(content)


def _json(rows: Sequence[Row]) -> bytes:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n"


def _csv(rows: Sequence[Row]) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, _columns(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def _parquet(rows: Sequence[Row]) -> bytes:
    from hostler.sim.extras import missing_extra

    try:
        import polars
    except ImportError:
        raise missing_extra("Parquet files", "polars", "sim") from None
    if not rows:
        raise InputError("there are no rows to write")
    columns = _columns(rows)
    table = polars.DataFrame([{name: row.get(name) for name in columns} for row in rows], infer_schema_length=None)
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
