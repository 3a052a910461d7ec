"""Policies side by side: the same arrivals for all of them, and how sure a difference is.

Runs are paired by workload, tuning and seed: each pair differs in nothing but the policy. The interval is that of the
mean difference, so it is far narrower than the spread of the runs.

If seeds make no difference, further seeds repeat the first run: they are no sample, so they give no interval. The
difference is exact then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Literal

import msgspec

from hostler.errors import InputError, UnknownNameError
from hostler.sim.sweeps.cell_figures import is_less_better, usual_figures
from hostler.sim.sweeps.cells import CellResult
from hostler.sim.sweeps.statistics import Interval, mean, paired_interval, spread

__all__ = ["ALL", "BEST", "FIRST", "BoundOf", "ComparisonRow", "compare"]

ALL = "all"  # in place of a workload: all of them together
FIRST, BEST = "first", "best"  # whom others are compared with
BOUNDED = "gpu_percent"  # the figure that upper bounds are for

Experiment = tuple[str, float, int]  # workload, tuning, seed
Setup = tuple[str, float]  # workload, tuning
BoundOf = Mapping[Experiment, float]
Verdict = Literal["better", "worse", "unclear", "equal"]


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """One policy on one workload, by one figure."""

    workload: str
    figure: str
    policy: str
    runs: int
    mean: float
    spread: float  # standard deviation
    against: str  # whom it is compared with
    difference: float | None = None  # of the means; None: it is the one
    margin: float | None = None  # 95 %: the true difference lies within so much of the measured one; None: no interval
    verdict: Verdict | None = None  # None: it is the one, or one run alone says nothing
    wins: int = 0  # runs in which no policy was better
    of_bound: float | None = None  # mean share of the upper bound, in percent
    seeds_matter: bool = True  # False: all seeds give the same figures, so one run stands for all


def compare(
    results: Iterable[CellResult],
    figures: Sequence[str] = (),
    *,
    against: str = FIRST,
    is_less: bool | None = None,
    bounds: BoundOf | None = None,
) -> list[ComparisonRow]:
    """Compare policies; the order of policies is that in which they first appear."""
    by_policy: dict[str, dict[Experiment, dict[str, float]]] = {}
    for result in results:
        cell = result.cell
        by_policy.setdefault(cell.policy_name, {})[cell.workload, cell.tune, cell.seed] = result.figures
    experiments = [key for key in next(iter(by_policy.values()), {}) if all(key in runs for runs in by_policy.values())]
    if not experiments:
        raise InputError("there is nothing to compare: no experiment was run under all policies")
    fixed = {name: _seedless(by_policy[name], experiments) for name in by_policy}
    if repeated := set.intersection(*map(set, fixed.values())):
        experiments = _without_repeats(experiments, repeated)
    rows = []
    runs = [run for each in by_policy.values() for run in each.values()]
    for figure in figures or usual_figures(runs):
        values = _values(by_policy, experiments, figure)
        less = is_less_better(figure) if is_less is None else is_less
        workloads = list(dict.fromkeys(workload for workload, _, _ in experiments))
        groups = {name: [key for key in experiments if key[0] == name] for name in workloads}
        if len(workloads) > 1:
            groups[ALL] = experiments
        known = bounds if figure == BOUNDED else None
        for name, keys in groups.items():
            rows += _rows(name, figure, keys, values, fixed, against=against, less=less, bounds=known)
    return rows


def _seedless(runs: Mapping[Experiment, Mapping[str, float]], experiments: Sequence[Experiment]) -> set[Setup]:
    """Return the setups that ran with several seeds and gave the same figures with all of them."""
    found: dict[Setup, list[Mapping[str, float]]] = {}
    for workload, tune, seed in experiments:
        found.setdefault((workload, tune), []).append(runs[workload, tune, seed])
    return {setup for setup, same in found.items() if len(same) > 1 and all(each == same[0] for each in same)}


def _without_repeats(experiments: Iterable[Experiment], repeated: Set[Setup]) -> list[Experiment]:
    """Keep only the first seed of each setup in ``repeated``."""
    seen: set[Setup] = set()
    kept = []
    for key in experiments:
        if key[:2] not in seen:
            kept.append(key)
        if key[:2] in repeated:
            seen.add(key[:2])
    return kept


def _values(
    by_policy: Mapping[str, Mapping[Experiment, Mapping[str, float]]], experiments: Sequence[Experiment], figure: str
) -> dict[str, dict[Experiment, float]]:
    found: dict[str, dict[Experiment, float]] = {}
    for policy, runs in by_policy.items():
        for key in experiments:
            if figure not in runs[key]:
                raise UnknownNameError(f"the runs have no figure {figure!r}", hint=f"one of {', '.join(runs[key])}")
            found.setdefault(policy, {})[key] = runs[key][figure]
    return found


def _rows(
    workload: str,
    figure: str,
    keys: Sequence[Experiment],
    values: Mapping[str, Mapping[Experiment, float]],
    fixed: Mapping[str, Set[Setup]],
    *,
    against: str,
    less: bool,
    bounds: BoundOf | None,
) -> list[ComparisonRow]:
    columns = {policy: [runs[key] for key in keys] for policy, runs in values.items()}
    reference = _reference(columns, against, less=less)
    choose = min if less else max
    bests = [choose(column[at] for column in columns.values()) for at in range(len(keys))]
    setups = {key[:2] for key in keys}
    is_fixed = {policy: setups <= found for policy, found in fixed.items()}
    rows = []
    for policy, column in columns.items():
        gap = None if policy == reference else paired_interval(column, columns[reference])
        is_exact = len(setups) == 1 and is_fixed[policy] and is_fixed[reference]
        if gap and is_exact:
            gap = Interval(gap.difference, None)
        rows.append(
            ComparisonRow(
                workload=workload,
                figure=figure,
                policy=policy,
                runs=len(keys),
                mean=mean(column),
                spread=spread(column),
                against=reference,
                difference=gap.difference if gap else None,
                margin=gap.margin if gap else None,
                verdict=_verdict(gap, less=less, is_exact=is_exact) if gap else None,
                wins=sum(value == best for value, best in zip(column, bests, strict=True)),
                of_bound=_share(column, keys, bounds),
                seeds_matter=not is_fixed[policy],
            )
        )
    return rows


def _reference(columns: Mapping[str, Sequence[float]], against: str, *, less: bool) -> str:
    if against == FIRST:
        return next(iter(columns))
    if against == BEST:
        return (min if less else max)(columns, key=lambda policy: mean(columns[policy]))
    if against not in columns:
        raise UnknownNameError(f"policy {against!r} is not among those compared", hint=f"one of {', '.join(columns)}")
    return against


def _verdict(gap: Interval, *, less: bool, is_exact: bool) -> Verdict | None:
    if gap.margin is None and not is_exact:
        return None
    if not gap.difference and not gap.margin:
        return "equal"
    if not is_exact and not gap.is_clear:
        return "unclear"
    return "better" if (gap.difference < 0) == less else "worse"


def _share(column: Sequence[float], keys: Sequence[Experiment], bounds: BoundOf | None) -> float | None:
    """Return the mean share of the bound; None where a bound is not known."""
    if not bounds or not all(bounds.get(key) for key in keys):
        return None
    return mean([100.0 * value / bounds[key] for value, key in zip(column, keys, strict=True)])
