"""Sweeps: many cells, whose results are kept in a folder, one file each.

A file gets its name only when it is complete, so a killed sweep continues where it was. The name is the
cell's key. How long cells took stands in a table beside them, because it differs from run to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from hostler.errors import InputError
from hostler.runtime.files import write_durably
from hostler.sim.sweeps.cells import CellResult, CellRun, SweepCell, cell_key
from hostler.sim.sweeps.executors import Runner

__all__ = ["ResultFolder", "SweepProgress", "find_progress", "run_sweep"]

_CELLS = "cells"
_TIMES = "seconds.csv"


class ResultFolder:
    """A folder with results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cells = path / _CELLS

    def prepare(self) -> None:
        """Make the folder."""
        try:
            self._cells.mkdir(parents=True, exist_ok=True)
            for part in self._cells.glob(".*.part"):  # of a run that was killed while it wrote
                part.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    def file_of(self, cell: SweepCell) -> Path:
        """Return where the result of a cell is, or will be."""
        return self._cells / f"{cell_key(cell)}.json"

    def find(self, cell: SweepCell) -> CellResult | None:
        """Return the result of a cell, if it is there; a file that is no result counts as none."""
        return _read(self.file_of(cell))

    def keep(self, done: CellRun) -> CellResult:
        """Write a result."""
        result = done.result
        target = self._cells / f"{result.key}.json"
        part = self._cells / f".{result.key}.{os.getpid()}.part"
        try:
            write_durably(target, done.content + b"\n", mode=0o666, part=part)
            with (self.path / _TIMES).open("a") as times:
                times.write(f"{result.key},{done.wall_s:.3f}\n")
        except OSError as error:
            raise _unwritable(self.path, error) from None
        return result

    def results(self) -> list[CellResult]:
        """Return all results, in an order that does not depend on who was first."""
        if not self._cells.is_dir():
            raise InputError(f"{self.path} has no results of a sweep", hint="name the folder that a sweep wrote to")
        found = []
        for path in sorted(self._cells.glob("*.json")):
            result = _read(path)
            if result is None:
                raise InputError(
                    f"{path}: this is no result of a sweep, or a damaged one", hint="run the sweep again: it mends that"
                )
            found.append(result)
        return sorted(found, key=_order)


class SweepProgress(NamedTuple):
    """What is there of a sweep, and what is left to do."""

    done: list[CellResult]
    left: list[SweepCell]


def find_progress(cells: Iterable[SweepCell], folder: ResultFolder, *, retries: bool = False) -> SweepProgress:
    """Look which cells have a result; one that failed is left alone, unless it is to be tried again."""
    sweep = SweepProgress([], [])
    for cell in {cell_key(cell): cell for cell in cells}.values():
        found = folder.find(cell)
        if found is None or (retries and found.error):
            sweep.left.append(cell)
        else:
            sweep.done.append(found)
    return sweep


def run_sweep(
    cells: Sequence[SweepCell], folder: ResultFolder, runner: Runner, on_result: Callable[[CellResult], object]
) -> None:
    """Run cells and keep each result as soon as it is there."""
    folder.prepare()
    with closing(runner(cells)) as finished:
        for done in finished:
            on_result(folder.keep(done))


def _read(path: Path) -> CellResult | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=CellResult)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _order(result: CellResult) -> tuple[str, str, str, float, int, str]:
    cell = result.cell
    return cell.kind, cell.workload, cell.policy_name, cell.tune, cell.seed, result.key


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}", hint="check the folder")
