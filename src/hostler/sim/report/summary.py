"""Summaries: policies compared on the runs that they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hostler.errors import InputError
from hostler.sim.report.charts.canvas import figure_text
from hostler.sim.report.markup import Markup, table, with_spread_text
from hostler.sim.report.runs import Experiment, Run
from hostler.sim.sweeps.cell_figures import is_less_better
from hostler.sim.sweeps.cells import CellResult, SweepCell
from hostler.sim.sweeps.comparison import ALL, BEST, ComparisonRow, compare
from hostler.sim.sweeps.statistics import mean, spread

__all__ = [
    "Bounds",
    "best_places",
    "compare_policies",
    "comparison_table",
    "mean_and_spread",
    "verdict_text",
    "workload_matrix",
]

Bounds = Mapping[tuple[str, int], float]


def compare_policies(experiment: Experiment, names: Sequence[str], bounds: Bounds | None = None) -> list[ComparisonRow]:
    """Compare the policies of one experiment. Policies that share no seed are summarized without a comparison."""
    known = {(label, SweepCell().tune, seed): bound for (label, seed), bound in (bounds or {}).items()}
    cells = _cells(experiment.label, experiment.runs)
    try:
        return compare(cells, names, against=BEST, bounds=known)
    except InputError:
        alone = [[cell for cell in cells if cell.cell.policy_name == policy] for policy in experiment.policies]
        return [row for own in alone for row in compare(own, names, bounds=known)]


def _cells(label: str, runs: Iterable[Run]) -> list[CellResult]:
    return [
        CellResult(
            key="",
            hostler="",
            cell=SweepCell(workload=label, policy=run.policy, seed=run.seed),
            figures=dict(run.figures),
        )
        for run in runs
    ]


def workload_matrix(experiments: Sequence[Experiment], policies: Sequence[str], name: str, caption: str) -> Markup:
    """Return a table of means and spreads, a line for each workload and a column for each policy; best in bold."""
    rows: list[list[str]] = []
    bold = []
    for experiment in experiments:
        shared = experiment.shared()
        values = {policy: [run.figures[name] for run in shared.of(policy)] for policy in shared.policies}
        cells = [mean_and_spread(values[policy]) if policy in values else "-" for policy in policies]
        means = [mean(values[policy]) if policy in values else None for policy in policies]
        bold += [(len(rows), 1 + place) for place in best_places(means, name)]
        rows.append([experiment.label, *cells])
    everything = _everything(experiments, name)
    if everything:
        bold += [(len(rows), 1 + place) for place in best_places([row.mean for row in everything], name)]
        by_policy = {row.policy: with_spread_text(figure_text(row.mean), figure_text(row.spread)) for row in everything}
        rows.append(["all together", *(by_policy[policy] for policy in policies)])
        by_wins = {row.policy: f"{row.wins:,} of {row.runs:,}" for row in everything}
        rows.append(["wins", *(by_wins[policy] for policy in policies)])
    columns = [("Workload", "left"), *((policy, "right") for policy in policies)]
    return table(caption, columns, rows, bold)


def _everything(experiments: Sequence[Experiment], name: str) -> list[ComparisonRow]:
    """Return the comparison over all workloads, where every policy has a part in each."""
    cells = [cell for each in experiments for cell in _cells(each.label, each.runs)]
    if len({tuple(sorted(each.policies)) for each in experiments}) > 1:
        return []
    try:
        return [row for row in compare(cells, [name], against=BEST) if row.workload == ALL]
    except InputError:
        return []


def comparison_table(caption: str, rows: Sequence[ComparisonRow], titles: Mapping[str, str]) -> Markup:
    """Return a table with the differences to the best policy, run by run."""
    columns = [("Figure", "left"), ("Policy", "left"), ("Mean ± spread", "right"), ("To the best", "right")]
    columns += [("95 % within", "right"), ("Verdict", "left"), ("Wins", "right")]
    lines = [
        [
            titles[row.figure],
            row.policy,
            with_spread_text(figure_text(row.mean), figure_text(row.spread)),
            "best" if row.difference is None else f"{row.difference:+,.2f}",
            "-" if row.margin is None else f"± {row.margin:,.2f}",
            row.verdict or "-",
            f"{row.wins:,} of {row.runs:,}",
        ]
        for row in rows
    ]
    return table(caption, columns, lines)


def mean_and_spread(values: Sequence[float], digits: int = 2) -> str:
    """Write the mean of runs, and their standard deviation where there are several."""
    written = figure_text(mean(values), digits)
    return with_spread_text(written, figure_text(spread(values), digits)) if len(values) > 1 else written


def best_places(means: Sequence[float | None], name: str) -> list[int]:
    """Return the places of the best values; none where all are the same."""
    known = [value for value in means if value is not None]
    if len(set(known)) < 2:
        return []
    best = min(known) if is_less_better(name) else max(known)
    return [place for place, value in enumerate(means) if value == best]


def verdict_text(rows: Sequence[ComparisonRow], what: str, unit: str) -> str:
    """Say in a sentence which policy is best by a figure; empty if there is only one."""
    best = next((row for row in rows if row.difference is None), None)
    others = sorted((abs(row.difference), row.policy, row) for row in rows if row.difference is not None)
    if best is None or not others or len(others) != len(rows) - 1:
        return ""
    gap, second, row = others[0]
    if not gap:
        return f"{best.policy} and {second} share the first place: {figure_text(best.mean)}{unit} {what}."
    sure = {None: "", "unclear": ", which may be chance", "equal": ""}.get(row.verdict, ", a clear difference (95 %)")
    if row.verdict and row.margin is None:
        sure = ", with every seed"
    less = "less" if is_less_better(best.figure) else "more"
    wins = f"no policy is better in {best.wins:,} of {best.runs:,} runs" if best.runs > 1 else "by one run alone"
    if best.runs == 1 and not best.seeds_matter:
        wins = "seeds make no difference"
    points = " points" if unit == " %" else unit
    return (
        f"{best.policy} leads with {figure_text(best.mean)}{unit} {what}; {wins}. "
        f"That is {figure_text(gap)}{points} {less} than the next, {second}{sure}."
    )
