"""One row per figure, the facts about the machine, the table that people read and the JSON that programs read."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import msgspec

__all__ = ["Machine", "Report", "Row", "describe_machine", "table", "write_json"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. ``ratio`` is how many times better than the target it is, so 1 and more pass."""

    name: str
    what: str
    unit: str
    measured: float
    target: float | None = None  # None: for information
    sense: Literal["at least", "at most"] = "at least"
    ratio: float | None = None
    verdict: Literal["pass", "miss", "info"] = "info"
    note: str = ""
    spoiled: str = ""  # why the figure counts for nothing, however good it is
    runs: tuple[float, ...] = ()  # all runs; the best is ``measured``

    def judged(self) -> Row:
        """Return the row with its ratio and verdict."""
        if self.spoiled:
            return msgspec.structs.replace(self, verdict="miss")
        if self.target is None:
            return self
        at_least = self.sense == "at least"
        ratio = self.measured / self.target if at_least else self.target / max(self.measured, 1e-12)
        return msgspec.structs.replace(self, ratio=round(ratio, 3), verdict="pass" if ratio >= 1 else "miss")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader needs to judge the figures."""

    cores: int
    system: str
    python: str
    numpy: str
    numba: str
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one run."""

    bench: str
    quick: bool
    runs_per_figure: int
    machine: Machine
    rows: tuple[Row, ...]


def describe_machine(load_before: tuple[float, float, float]) -> Machine:
    """Describe this machine in general words."""
    return Machine(
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        numpy=version("numpy"),
        numba=version("numba"),
        load_before=load_before,
        load_after=os.getloadavg(),
    )


def write_json(report: Report, path: Path) -> None:
    """Write the report where other programs find it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def table(report: Report) -> str:
    """Lay the report out as text."""
    machine = report.machine
    lines = [("name", "what", "target", "measured", "x target", "verdict")]
    lines += [(row.name, row.what, _target(row), _measured(row), _ratio(row), row.verdict) for row in report.rows]
    sizes = "a tenth of the size, so targets are not judged; " if report.quick else ""
    return "\n".join(
        [
            f"{report.bench}: {sizes}best of {report.runs_per_figure}, one thread, gc on",
            f"machine: {machine.cores} cores, {machine.system}, Python {machine.python}, numpy {machine.numpy}, "
            f"numba {machine.numba}",
            f"load average {machine.load_before[0]:.2f} before, {machine.load_after[0]:.2f} after",
            "",
            *_columns(lines),
            *[f"{row.name}: {row.note}" for row in report.rows if row.note],
            *[f"{row.name} counts for nothing: {row.spoiled}" for row in report.rows if row.spoiled],
        ]
    )


def _columns(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    to_the_right = (False, False, True, True, True, False)

    def laid_out(line: tuple[str, ...]) -> str:
        cells = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, to_the_right, strict=True)
        )
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return [laid_out(lines[0]), rule, *map(laid_out, lines[1:])]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _target(row: Row) -> str:
    return "" if row.target is None else f"{'>=' if row.sense == 'at least' else '<='} {_number(row.target)} {row.unit}"


def _measured(row: Row) -> str:
    return f"{_number(row.measured)} {row.unit}"


def _ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f}"
