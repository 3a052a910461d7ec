"""How answers are written: tables, JSON, YAML, notes and progress bars.

A terminal gets tables by rich, in color unless NO_COLOR is set; columns that do not fit stand below their row. A pipe
or a file gets plain columns that are never wrapped, and so do very long tables. Answers go to standard output,
everything about them to standard error.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Column", "note", "print_data", "print_data_line", "print_table", "printable", "printable_lines", "progress", "say",
    "say_parts",
]  # fmt: skip

_GAP = 2  # blanks between columns
_INDENT = "    "  # before what stands below a row
_LONG_WORD = 24  # letters; a longer word may be broken rather than push other columns out

MAX_RICH_ROWS = 500  # rich needs about a millisecond for a row

PIPE_WIDTH = 80  # of lines that are broken although no width is known …
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
    """Write plain values as one line of JSON, an item of a list without an end."""
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
    """Write a table as wide as the terminal at most; columns that would break words stand below their row instead."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
    least = [_least_width(column, [row[at] for row in rows]) for at, column in enumerate(columns)]
    if _total(least) > console.width:
        _print_folded(console, columns, rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for (heading, align), width in zip(columns, least, strict=True):
        justify: Literal["left", "right"] = "right" if align == "right" else "left"
        table.add_column(heading, justify=justify, overflow="fold", min_width=width)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _least_width(column: Column, cells: Sequence[str]) -> int:
    """Return the width that a column needs: numbers are never broken, text only between words, unless they are long."""
    heading, align = column
    if align == "right":
        return max(map(len, (*heading.split(), *cells)))
    longest = max((len(word) for cell in cells for word in cell.split()), default=0)
    return max(*map(len, heading.split()), min(longest, _LONG_WORD), 1)


def _print_folded(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Write the first columns, as many as fit, as a table, and the others of each row with headings in lines below."""
    from rich.text import Text

    headings = [heading for heading, _ in columns]
    widths = [max(len(row[at]) for row in (headings, *rows)) for at in range(len(columns))]
    kept = max((count for count in range(1, len(columns) + 1) if _total(widths[:count]) <= console.width), default=1)
    fill = [str.rjust if align == "right" else str.ljust for _, align in columns[:kept]]
    gap = " " * _GAP

    def write(cells: Sequence[str], style: str = "") -> None:
        line = gap.join(put(cell, width) for put, cell, width in zip(fill, cells, widths, strict=False))
        console.print(Text(line.rstrip(), style=style), overflow="fold")

    write(headings[:kept], "bold")
    for row in rows:
        write(row[:kept])
        entries = [f"{heading}: {cell}" for heading, cell in zip(headings[kept:], row[kept:], strict=True) if cell]
        for line in _filled(entries, console.width - len(_INDENT)):
            console.print(Text(_INDENT + line), overflow="fold")


def _filled(entries: Iterable[str], width: int) -> Iterator[str]:
    """Put entries into lines: several beside each other if they fit, a long one wrapped."""
    line = ""
    for entry in entries:
        if line and len(line) + _GAP + len(entry) <= width:
            line += " " * _GAP + entry
            continue
        if line:
            yield line
        *whole, line = textwrap.wrap(entry, max(width, 1), subsequent_indent="  ") or [""]
        yield from whole
    if line:
        yield line


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
