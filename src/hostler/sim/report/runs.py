"""Runs: results of every kind in one form, each of them once.

They are read from files of ``hostler sim run -o json``, lists of them, and folders of sweeps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hostler.errors import DuplicateNameError, InputError
from hostler.sim.fill_experiment import BINS, FillResult
from hostler.sim.scenarios.outcome import ScenarioOutcome, Series
from hostler.sim.sweeps.cell_figures import filling_curves, filling_figures
from hostler.sim.sweeps.cells import CellResult
from hostler.sim.sweeps.sweep import ResultFolder

__all__ = ["Experiment", "ReportRuns", "Result", "Run", "collect_runs", "read_results", "run_of"]

_MAP = "by_host"  # a series that sweeps leave out
_NEEDED = {"openb": ("gpu_percent", "failed", "frag_percent")}

Result = FillResult | ScenarioOutcome | CellResult


class Run(NamedTuple):
    """One run, from any kind of result file."""

    kind: str  # openb, scenario or bound
    workload: str
    policy: str
    seed: int
    tune: float | None  # None: the result does not say
    figures: Mapping[str, float]
    failed_by_kind: Mapping[str, int]
    curves: Mapping[str, tuple[float, ...]]
    outcome: ScenarioOutcome | None = None
    error: str = ""

    @property
    def name(self) -> str:
        """Name the run for people."""
        tune = "" if self.tune is None else f", tune {self.tune:g}"
        return f"{self.workload}{tune}, policy {self.policy}, seed {self.seed}"


class Experiment(NamedTuple):
    """All runs of one workload and tuning: they differ in policy and seed."""

    label: str
    runs: Sequence[Run]

    @property
    def policies(self) -> list[str]:
        """Return the policies, in the order of the input."""
        return list(dict.fromkeys(run.policy for run in self.runs))

    def shared(self) -> Experiment:
        """Return the runs whose seeds all policies have: those can be compared; all runs where there are none."""
        seeds = [{run.seed for run in self.runs if run.policy == policy} for policy in self.policies]
        common = set.intersection(*seeds)
        kept = [run for run in self.runs if run.seed in common] if common else self.runs
        return Experiment(self.label, sorted(kept, key=lambda run: run.seed))

    def of(self, policy: str) -> list[Run]:
        """Return the runs of a policy."""
        return [run for run in self.runs if run.policy == policy]


class ReportRuns(NamedTuple):
    """What a report is about."""

    fillings: list[Experiment]
    scenarios: list[Experiment]
    bounds: dict[tuple[str, int], float]  # by label and seed, in percent of all gpus
    broken: list[Run]  # those that ended with an error
    policies: list[str]  # in the order of the input, which gives them their colors

    @property
    def all(self) -> list[Run]:
        """Return all runs that ended well."""
        return [run for experiment in (*self.fillings, *self.scenarios) for run in experiment.runs]


def run_of(result: Result) -> Run:
    """Return a result as a run."""
    if isinstance(result, ScenarioOutcome):
        name, figures = result.scenario, result.figures()
        return Run("scenario", name, result.policy, result.seed, None, figures, result.failed_by_kind, {}, result)
    if isinstance(result, FillResult):
        figures, curves = filling_figures(result), filling_curves(result)
        return Run("openb", result.workload, result.policy, result.seed, None, figures, result.failed_by_kind, curves)
    cell = result.cell
    tune = None if cell.kind == "scenario" else cell.tune
    return Run(
        cell.kind, cell.workload, cell.policy_name, cell.seed, tune, result.figures, result.failed_by_kind,
        result.curves, result.played(), result.error,
    )  # fmt: skip


def collect_runs(named: Iterable[tuple[str, Run]]) -> ReportRuns:
    """Sort runs, each with the file that it is from; one that is there twice counts once, if both say the same."""
    found: dict[tuple[str, str, str, int, float | None], tuple[str, Run]] = {}
    for source, run in named:
        key = run.kind, run.workload, run.policy, run.seed, run.tune
        missing = next((name for name in _NEEDED.get(run.kind, ()) if name not in run.figures and not run.error), None)
        if missing:
            where = f"{source}: " if source else ""
            raise InputError(f"{where}the result has no figure {missing!r}", hint="make it again with this version")
        other_source, other = found.setdefault(key, (source, run))
        if other.figures != run.figures and not other.error and not run.error:
            where = f"{source}: " if source else ""
            against = f" (the other: {other_source})" if other_source else ""
            raise DuplicateNameError(
                f"{where}there are two results of {run.name}, and they differ{against}",
                hint="keep one of them; results of a sweep tell runs of different tuning apart",
            )
        if other.error or (other.outcome is None and run.outcome is not None):  # the one that says more
            found[key] = source, run
    runs = [run for _, run in found.values()]
    if all(run.kind == "bound" for run in runs):  # bounds alone are nothing to compare with
        raise InputError("there are no results to report on", hint="name files of 'hostler sim run -o json'")
    whole = [run for run in runs if not run.error]
    tunes = {run.tune for run in whole if run.kind != "scenario"}
    is_tuned = len(tunes) > 1
    return ReportRuns(
        fillings=_experiments([run for run in whole if run.kind == "openb"], is_tuned=is_tuned),
        scenarios=_experiments([run for run in whole if run.kind == "scenario"], is_tuned=False),
        bounds={
            (_label(run, is_tuned=is_tuned), run.seed): run.figures["bound_percent"]
            for run in whole
            if run.kind == "bound" and "bound_percent" in run.figures
        },
        broken=[run for run in runs if run.error],
        policies=list(dict.fromkeys(run.policy for run in whole if run.kind != "bound")),
    )


def _experiments(runs: Iterable[Run], *, is_tuned: bool) -> list[Experiment]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_label(run, is_tuned=is_tuned), []).append(run)
    return [Experiment(label, group) for label, group in groups.items()]


def _label(run: Run, *, is_tuned: bool) -> str:
    return f"{run.workload}, tune {run.tune:g}" if is_tuned and run.tune is not None else run.workload


_STANDARD_STREAM = "-"
_HINT = "give files of 'hostler sim run -o json', or the folder of a sweep"


def read_results(paths: Iterable[str]) -> list[Result]:
    """Read all results, in the order of the paths. Errors name the file."""
    named: list[tuple[str, Result]] = []
    for path in paths:
        source = "<stdin>" if path == _STANDARD_STREAM else path
        found = _of_folder(path) if Path(path).is_dir() else _of_file(path, source)
        if not found:
            raise InputError(f"{source}: there are no results in it", hint=_HINT)
        named += [(source, result) for result in found]
    collect_runs((source, run_of(result)) for source, result in named)
    return [result for _, result in named]


def _of_folder(path: str) -> Sequence[Result]:
    results = ResultFolder(Path(path)).results()
    for result in results:
        if any(len(curve) != BINS for curve in result.curves.values()):
            raise InputError(f"{path}: the curves of {result.key} have not {BINS} points", hint=_HINT)
        if problem := _problem_of_outcome(result):
            raise InputError(f"{path}: the outcome of {result.key}: {problem}", hint=_HINT)
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
        ("series", ScenarioOutcome),
        ("curves", FillResult),
    )
    kind = next((kind for key, kind in kinds if isinstance(found, dict) and key in found), None)
    if kind is None:
        raise InputError(f"{source}: this is no result of a simulation", hint=_HINT)
    try:
        # As text again: a result of a sweep holds a part that is read later.
        result = msgspec.json.decode(msgspec.json.encode(found), type=kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{source}: this is no result of a simulation: {error}", hint=_HINT) from None
    problem = _problem(result)
    if problem:
        raise InputError(f"{source}: {problem}", hint=_HINT)
    return result


def _problem(result: Result) -> str | None:
    """Say what is wrong with the lengths of curves and series."""
    if isinstance(result, ScenarioOutcome):
        series = result.series
        lengths = {
            len(column) for name in Series.__struct_fields__ if (column := getattr(series, name)) or name != _MAP
        }
        if lengths != {len(series.at_s)} or len({len(row) for row in series.by_host}) > 1:
            return "the columns of its series are not equally long"
        if any(later < earlier for earlier, later in zip(series.at_s, series.at_s[1:], strict=False)):
            return "the times of its series are not in order"
        return None
    if isinstance(result, CellResult) and (problem := _problem_of_outcome(result)):
        return problem
    curves = result.curves
    columns = (curves.alloc, curves.frag, curves.frag_ratio) if not isinstance(curves, dict) else curves.values()
    return None if all(len(column) == BINS for column in columns) else f"its curves have not {BINS} points"


def _problem_of_outcome(result: CellResult) -> str | None:
    """Say what is wrong with the series that a sweep kept of a scenario."""
    try:
        outcome = result.played()
    except (msgspec.DecodeError, RecursionError) as error:
        return f"its outcome is none: {error}"
    return _problem(outcome) if outcome is not None else None
