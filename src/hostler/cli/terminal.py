"""How answers are written: tables, JSON, YAML, notes and progress bars.

A terminal gets tables by rich, in colour unless NO_COLOR is set; a pipe or a file gets plain columns that are never
wrapped, and so do very long tables. Answers go to standard output, everything about them to standard error.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import click

__all__ = [
    "Column", "note", "print_data", "print_data_line", "print_table", "printable", "printable_lines", "progress", "say",
    "say_parts",
]  # fmt: skip

MAX_RICH_ROWS = 500  # rich needs about a millisecond for a row

PIPE_WIDTH = 80  # of lines that are broken although nobody says how wide they may be …
PIPE_LIMIT = 100  # … and of those that are not broken

Column = tuple[str, str]  # heading, and "left" or "right"

_NO_ASCII = re.compile(r"[^\n -~]")


def say(text: str = "") -> None:
    """Write a line of the answer, or several."""
    click.echo(printable_lines(text))


def say_parts(text: str) -> None:
    """Write a sentence in parts, broken after semicolons where it is too wide."""
    text = printable(text)
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else PIPE_WIDTH
    if len(text) <= (width if is_terminal else PIPE_LIMIT):
        say(text)
        return
    line, *parts = text.split("; ")
    for part in parts:
        if len(line) + len(part) + 3 > width:  # with "; " between them and ";" or "." behind
            say(f"{line};")
            line = f"  {part}"
        else:
            line = f"{line}; {part}"
    say(line)


def note(text: str, *, label: str = "note: ") -> None:
    """Write a line beside the answer, to standard error."""
    click.echo(f"{label}{printable(text)}", err=True)


def print_data(data: object, output: str) -> None:
    """Write plain values as JSON or YAML."""
    if output == "yaml":
        from hostler.config import write_yaml

        click.echo(write_yaml(data), nl=False)
        return
    import msgspec

    click.echo(_NO_ASCII.sub(_escaped, msgspec.json.format(msgspec.json.encode(data), indent=2).decode()))


def print_data_line(data: object) -> None:
    """Write plain values as one line of JSON, of a list that goes on."""
    import msgspec

    click.echo(_NO_ASCII.sub(_escaped, msgspec.json.encode(data).decode()))


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Write a table."""
    lines = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and len(lines) <= MAX_RICH_ROWS:
        _print_rich(columns, lines)
    else:
        _print_plain(columns, lines)


def _print_plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    headings = [heading for heading, _ in columns]
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(columns))]
    fill = [str.rjust if align == "right" else str.ljust for _, align in columns]
    lines = (
        "  ".join(put(cell, width) for put, cell, width in zip(fill, row, widths, strict=True)).rstrip()
        for row in (headings, *rows)
    )
    click.echo("\n".join(lines))  # at once: click flushes after every call


def _print_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading, align in columns:
        table.add_column(heading, justify="right" if align == "right" else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(file=sys.stdout, markup=False, emoji=False, highlight=False).print(table)


@contextmanager
def progress(label: str, total: int | None, *, is_long: bool = True) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal while something long runs; yield the function that advances it."""
    if not is_long or not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


def printable(text: str) -> str:
    """Replace what could move a terminal's cursor: names may come from strangers."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def printable_lines(text: str) -> str:
    """Replace what could move a terminal's cursor, but for the ends of lines: our own text may have several."""
    return text if text.isprintable() else "\n".join(printable(line) for line in text.split("\n"))


def _escaped(found: re.Match[str]) -> str:
    """Write what stands in a string of JSON and cannot be printed as JSON escapes it, beyond 16 bits in two halves."""
    letter = found[0]
    if letter.isprintable():
        return letter
    halves = letter.encode("utf-16-be")
    return "".join(f"\\u{halves[at]:02x}{halves[at + 1]:02x}" for at in range(0, len(halves), 2))
