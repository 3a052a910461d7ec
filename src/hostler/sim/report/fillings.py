"""The part about experiments in which guests arrive and never leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hostler.sim.fill_experiment import KINDS
from hostler.sim.report.charts.averages import ChartLine, arrival_lines
from hostler.sim.report.charts.bars import Bar, bar_chart
from hostler.sim.report.charts.canvas import PolicyColors, Scale, figure_text, linear_scale
from hostler.sim.report.charts.figures import bars_table, frame_chart, legend, lines_table
from hostler.sim.report.charts.lines import line_chart, value_scale
from hostler.sim.report.markup import Markup, table, tag, with_spread_text
from hostler.sim.report.runs import Experiment, Run
from hostler.sim.report.summary import Bounds, best_places, compare_policies, mean_and_spread, verdict_text
from hostler.sim.sweeps.comparison import ComparisonRow
from hostler.sim.sweeps.statistics import mean

__all__ = ["failure_figure", "filling_part"]

_ASKED = "Requested GPUs (% of all)"
_POINTS = (100, 110, 120, 130)  # percent of requested gpus, at which bars are drawn
_MANY = 6  # policies; with more, bars are drawn at the first and the last point only
_APART = 0.5  # points between policies, from where the second chart of allocation begins


def filling_part(experiment: Experiment, colors: PolicyColors, bounds: Bounds) -> Markup:
    """Return everything about one workload."""
    shared = experiment.shared()
    rows = compare_policies(shared, ["gpu_percent"], bounds)
    by_policy = {policy: shared.of(policy) for policy in shared.policies}
    charts = [*_curves(by_policy, colors), *_bars(by_policy, colors)]
    left_out = len(experiment.runs) - len(shared.runs)
    said = verdict_text(rows, "of all GPUs allocated", " %")
    if left_out:
        said += f" Runs of seeds that not every policy has are left out here: {left_out:,}."
    return tag(
        "div",
        tag("p", said, class_="lead") if said else "",
        legend(shared.policies, colors),
        _table(experiment.label, by_policy, rows),
        tag("div", *charts, class_="charts"),
    )


def _table(label: str, by_policy: Mapping[str, Sequence[Run]], rows: Sequence[ComparisonRow]) -> Markup:
    has_bounds = any(row.of_bound is not None for row in rows)
    columns = [("Policy", "left"), ("Runs", "right"), ("GPU allocated %", "right"), ("To the best", "right")]
    columns += [("95 % within", "right"), ("Wins", "right"), ("Failed guests", "right"), ("Fragmented GPU %", "right")]
    if has_bounds:
        columns.append(("Of the bound %", "right"))
    lines = []
    for row in rows:
        runs = by_policy[row.policy]
        line = [row.policy, f"{row.runs:,}"]
        line.append(
            with_spread_text(figure_text(row.mean), figure_text(row.spread)) if row.runs > 1 else figure_text(row.mean)
        )
        line.append(
            "best"
            if row.difference is None and len(rows) > 1
            else "-"
            if row.difference is None
            else f"{row.difference:+,.2f}"
        )
        line.append("-" if row.margin is None else f"± {row.margin:,.2f}")
        line.append(f"{row.wins:,} of {row.runs:,}")
        line.append(mean_and_spread([run.figures["failed"] for run in runs], 1 if len(runs) > 1 else 0))
        line.append(mean_and_spread([run.figures["frag_percent"] for run in runs]))
        if has_bounds:
            line.append("-" if row.of_bound is None else figure_text(row.of_bound))
        lines.append(line)
    failed = [mean([run.figures["failed"] for run in by_policy[row.policy]]) for row in rows]
    bold = [(place, 2) for place in best_places([row.mean for row in rows], "gpu_percent")]
    bold += [(place, 6) for place in best_places(failed, "failed")]
    return table(f"{label}: after the last arrival; mean ± standard deviation over seeds", columns, lines, bold)


def _curves(by_policy: Mapping[str, Sequence[Run]], colors: PolicyColors) -> list[Markup]:
    """Return the charts over arrivals."""
    found = []
    alloc = arrival_lines(by_policy, "alloc")
    if not alloc:
        return []
    x = linear_scale(0.0, max(float(line.x[-1]) for line in alloc), 13, is_tight=True)
    chart = "Allocated GPU", "% of all GPUs"
    found.append(_curve(alloc, colors, *chart, x, value_scale(alloc, most=100.0)))
    first = _parting(alloc)
    if first is not None:
        close = arrival_lines(by_policy, "alloc", first)
        near = linear_scale(float(first), x.high, 6, is_tight=True)
        chart = "Allocated GPU, where policies part", "% of all GPUs; cut axis"
        found.append(_curve(close, colors, *chart, near, value_scale(close, is_fitted=True, most=100.0)))
    for curve, title, unit in (
        ("frag", "Fragmented GPU", "% of all GPUs, idle but of no use"),
        ("frag_ratio", "Fragmentation ratio", "fragmented % of idle GPU"),
    ):
        lines = arrival_lines(by_policy, curve)
        if lines:
            found.append(_curve(lines, colors, title, unit, x, value_scale(lines)))
    return found


def _curve(lines: Sequence[ChartLine], colors: PolicyColors, title: str, unit: str, x: Scale, y: Scale) -> Markup:
    ends = ", ".join(f"{line.policy} {figure_text(float(line.mean[-1]))}" for line in lines)
    chart = line_chart(
        lines,
        colors,
        title=title,
        description=f"{unit}, over {_ASKED}. At the end: {ends}.",
        x=x,
        y=y,
        x_title=_ASKED,
    )
    return frame_chart(title, unit, chart, lines_table(lines, x, "Asked for %", f"{title}: mean over seeds"))


def _parting(lines: Sequence[ChartLine]) -> int | None:
    """Return from which percent on policies differ, a round one; None where they do not."""
    if len(lines) < 2:
        return None
    width = min(len(line.mean) for line in lines)
    table = np.array([line.mean[:width] for line in lines])
    differs = np.flatnonzero(table.max(axis=0) - table.min(axis=0) > _APART)
    if not len(differs) or width < 20:
        return None
    first = min(int(differs[0]) // 10 * 10, width - 20)
    return first if first >= 10 else None


def _bars(by_policy: Mapping[str, Sequence[Run]], colors: PolicyColors) -> list[Markup]:
    found = []
    lines = arrival_lines(by_policy, "alloc")
    idle = []
    for point in _POINTS if len(lines) <= _MANY else (_POINTS[0], _POINTS[-1]):
        bars = [
            Bar(line.policy, *(100.0 - float(values[point]) for values in (line.mean, line.high, line.low)))
            for line in lines
            if len(line.x) > point
        ]
        if bars:
            idle.append((f"at {point} %", bars))
    if idle:
        found.append(_bar_figure(idle, colors, "Unallocated GPU", "% of all GPUs, by requested GPUs", "At", 2))
    return [*found, *failure_figure(by_policy, colors)]


def failure_figure(by_policy: Mapping[str, Sequence[Run]], colors: PolicyColors) -> list[Markup]:
    """Return how many guests failed, by kind, where any did."""
    found = dict.fromkeys(kind for runs in by_policy.values() for run in runs for kind in run.failed_by_kind)
    kinds = [*(kind for kind in KINDS if kind in found), *(kind for kind in found if kind not in KINDS)]
    groups = []
    for kind in kinds:
        bars = []
        for policy, runs in by_policy.items():
            counts = [run.failed_by_kind.get(kind, 0) for run in runs]
            bars.append(Bar(policy, mean(counts), min(counts), max(counts)))
        if any(bar.high for bar in bars):
            groups.append((kind.replace("_", " "), bars))
    if not groups:
        return []
    return [_bar_figure(groups, colors, "Failed guests", "by their requests", "Request", 1)]


def _bar_figure(
    groups: Sequence[tuple[str, Sequence[Bar]]], colors: PolicyColors, title: str, unit: str, heading: str, digits: int
) -> Markup:
    told = "; ".join(f"{name}: " + ", ".join(f"{bar.policy} {bar.mean:,.1f}" for bar in bars) for name, bars in groups)
    x_title = "% of all GPUs" if digits == 2 else "guests"
    chart = bar_chart(groups, colors, title=title, description=f"{unit}. {told}.", x_title=x_title, digits=digits)
    return frame_chart(title, unit, chart, bars_table(groups, heading, f"{title}, {unit}", digits))
