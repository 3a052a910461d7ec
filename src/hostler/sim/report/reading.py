"""Reading results: files of ``hostler sim run -o json``, lists of them, and folders of sweeps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hostler.errors import InputError
from hostler.sim.cells import CellResult
from hostler.sim.filling import BINS, FillingResult
from hostler.sim.report.runs import Result, collect, run_of
from hostler.sim.scenarios.outcome import Outcome, Series
from hostler.sim.sweeps import ResultFolder

__all__ = ["read_results"]

_STANDARD_STREAM = "-"
_HINT = "give files of 'hostler sim run -o json', or the folder of a sweep"


def read_results(paths: Iterable[str]) -> list[Result]:
    """Read all results, in the order of the paths; whatever is wrong is told with its file."""
    named: list[tuple[str, Result]] = []
    for path in paths:
        source = "<stdin>" if path == _STANDARD_STREAM else path
        found = _of_folder(path) if Path(path).is_dir() else _of_file(path, source)
        if not found:
            raise InputError(f"{source}: there are no results in it", hint=_HINT)
        named += [(source, result) for result in found]
    collect((source, run_of(result)) for source, result in named)
    return [result for _, result in named]


def _of_folder(path: str) -> Sequence[Result]:
    results = ResultFolder(Path(path)).results()
    for result in results:
        if any(len(curve) != BINS for curve in result.curves.values()):
            raise InputError(f"{path}: the curves of {result.key} have not {BINS} points", hint=_HINT)
    return results


def _of_file(path: str, source: str) -> Sequence[Result]:
    try:
        content = sys.stdin.buffer.read() if path == _STANDARD_STREAM else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        problem = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"{source}: cannot be read: {problem}", hint="check the path and its permissions") from None
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{source}: this is no JSON: {error}", hint=_HINT) from None
    if not isinstance(found, list):
        return [_result(found, source)]
    return [_result(each, f"{source}: result {at}") for at, each in enumerate(found, 1)]


def _result(found: Any, source: str) -> Result:  # noqa: ANN401 (whatever a JSON file may hold)
    kinds: tuple[tuple[str, type[Result]], ...] = (
        ("cell", CellResult),
        ("series", Outcome),
        ("curves", FillingResult),
    )
    kind = next((kind for key, kind in kinds if isinstance(found, dict) and key in found), None)
    if kind is None:
        raise InputError(f"{source}: this is no result of a simulation", hint=_HINT)
    try:
        result = msgspec.convert(found, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{source}: this is no result of a simulation: {error}", hint=_HINT) from None
    problem = _problem(result)
    if problem:
        raise InputError(f"{source}: {problem}", hint=_HINT)
    return result


def _problem(result: Result) -> str | None:
    """Say what is wrong with the lengths of curves and series."""
    if isinstance(result, Outcome):
        series = result.series
        lengths = {len(getattr(series, name)) for name in Series.__struct_fields__}
        if lengths != {len(series.at_s)} or len({len(row) for row in series.by_host}) > 1:
            return "the columns of its series are not equally long"
        if any(later < earlier for earlier, later in zip(series.at_s, series.at_s[1:], strict=False)):
            return "the times of its series are not in order"
        return None
    curves = result.curves
    columns = (curves.alloc, curves.frag, curves.frag_ratio) if not isinstance(curves, dict) else curves.values()
    return None if all(len(column) == BINS for column in columns) else f"its curves have not {BINS} points"
