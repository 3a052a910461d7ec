"""Runs: results of every kind in one form, each of them once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hostler.errors import DuplicateNameError, InputError
from hostler.sim.cell_figures import filling_curves, filling_figures
from hostler.sim.cells import CellResult
from hostler.sim.filling import FillingResult
from hostler.sim.scenarios.outcome import Outcome

__all__ = ["Experiment", "Result", "Run", "Runs", "collect", "run_of"]

_NEEDED = {"openb": ("gpu_percent", "failed", "frag_percent")}

Result = FillingResult | Outcome | CellResult


class Run(NamedTuple):
    """One run, whoever wrote it down."""

    kind: str  # openb, scenario or bound
    workload: str
    policy: str
    seed: int
    tune: float | None  # None: the result does not say
    figures: Mapping[str, float]
    failed_by_kind: Mapping[str, int]
    curves: Mapping[str, tuple[float, ...]]
    outcome: Outcome | None = None
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


class Runs(NamedTuple):
    """What a report is about."""

    fillings: list[Experiment]
    scenarios: list[Experiment]
    bounds: dict[tuple[str, int], float]  # by label and seed, in percent of all gpus
    broken: list[Run]  # those that ended with an error
    policies: list[str]  # in the order of the input, which gives them their colours

    @property
    def all(self) -> list[Run]:
        """Return all runs that ended well."""
        return [run for experiment in (*self.fillings, *self.scenarios) for run in experiment.runs]


def run_of(result: Result) -> Run:
    """Return a result as a run."""
    if isinstance(result, Outcome):
        name, figures = result.scenario, result.figures()
        return Run("scenario", name, result.policy, result.seed, None, figures, result.failed_by_kind, {}, result)
    if isinstance(result, FillingResult):
        figures, curves = filling_figures(result), filling_curves(result)
        return Run("openb", result.workload, result.policy, result.seed, None, figures, result.failed_by_kind, curves)
    cell = result.cell
    tune = None if cell.kind == "scenario" else cell.tune
    return Run(
        cell.kind, cell.workload, cell.policy_name, cell.seed, tune, result.figures, result.failed_by_kind,
        result.curves, None, result.error,
    )  # fmt: skip


def collect(named: Iterable[tuple[str, Run]]) -> Runs:
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
    return Runs(
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
