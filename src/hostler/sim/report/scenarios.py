"""The part about scenarios: fleets in time, with waiting times by priority and by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from hostler.sim.fill_experiment import KINDS
from hostler.sim.report.charts.averages import ChartLine, time_lines
from hostler.sim.report.charts.canvas import PolicyColors, Scale, figure_text, plain_number_text, time_scale
from hostler.sim.report.charts.figures import frame_chart, legend, lines_table
from hostler.sim.report.charts.heatmap import heat_key, heat_map
from hostler.sim.report.charts.lines import line_chart, value_scale
from hostler.sim.report.fillings import failure_figure
from hostler.sim.report.markup import Markup, details, table, tag
from hostler.sim.report.runs import Experiment, Run
from hostler.sim.report.summary import best_places, compare_policies, comparison_table, mean_and_spread, verdict_text
from hostler.sim.scenarios.outcome import ScenarioOutcome, WaitTimes
from hostler.sim.sweeps.cell_figures import usual_figures
from hostler.sim.sweeps.comparison import ComparisonRow
from hostler.sim.sweeps.statistics import mean

__all__ = ["FIGURES", "scenario_part", "waits_tables"]

# A unit, and from which longest wait on it is used: long ones in minutes still leave digits for the short ones.
_UNITS = ((3600.0, "hours", 172_800.0), (60.0, "minutes", 120.0), (1.0, "seconds", 0.0))


def waits_tables(by_policy: Mapping[str, Sequence[Run]]) -> list[Markup]:
    """Return who waited how long, where the results say."""
    outcomes = {
        policy: found
        for policy, runs in by_policy.items()
        if (found := [run.outcome for run in runs if run.outcome is not None])
    }
    if not outcomes:
        return []
    tables = [
        _waits_table("Priority", outcomes, lambda outcome: outcome.waits_by_priority, _by_priority),
        _waits_table("Size", outcomes, lambda outcome: outcome.waits_by_size, _by_size),
    ]
    return [tag("h3", "Waiting times"), tag("div", *tables, class_="charts")]


def _waits_table(
    heading: str,
    outcomes: Mapping[str, Sequence[ScenarioOutcome]],
    groups: Callable[[ScenarioOutcome], Mapping[str, WaitTimes]],
    order: Callable[[Iterable[str]], list[str]],
) -> Markup:
    found = {policy: [groups(outcome) for outcome in each] for policy, each in outcomes.items()}
    names = order({name for each in found.values() for group in each for name in group})
    longest = max((waits.longest for each in found.values() for group in each for waits in group.values()), default=0.0)
    size, unit, _ = next(each for each in _UNITS if longest >= each[2])
    rows = []
    for name in names:
        for policy, each in found.items():
            waits = [group[name] for group in each if name in group]
            if waits:
                told = [_mean(waits, "mean"), _mean(waits, "p50"), _mean(waits, "p95")]
                told.append(max(one.longest for one in waits))
                guests = plain_number_text(_mean(waits, "guests"))
                rows.append([_shown(name), policy, guests, *(figure_text(value / size) for value in told)])
    columns = [(heading, "left"), ("Policy", "left"), ("Guests", "right"), ("Mean", "right"), ("Median", "right")]
    columns += [("95 % below", "right"), ("Longest", "right")]
    return table(f"By {heading.lower()}, in {unit}; means over seeds, and the longest of all", columns, rows)


def _mean(waits: Sequence[WaitTimes], name: str) -> float:
    return mean([float(getattr(one, name)) for one in waits])


def _by_priority(names: Iterable[str]) -> list[str]:
    """Sort by the number, highest first."""

    def key(name: str) -> tuple[bool, int, str]:
        digits = name.removeprefix("-")
        is_number = digits.isascii() and digits.isdigit() and len(digits) < 20
        return not is_number, -int(name) if is_number else 0, name

    return sorted(names, key=key)


def _by_size(names: Iterable[str]) -> list[str]:
    """Sort from small to large: cores first, then gpus."""

    def key(name: str) -> tuple[int, int, str]:
        if name in KINDS:
            return 2, KINDS.index(name), name
        cores = [int(word) for word in name.split() if word.isascii() and word.isdigit() and len(word) < 20]
        return int(name.startswith("over")), cores[0] if cores else 0, name

    return sorted(names, key=key)


def _shown(name: str) -> str:
    return "up to 1 core" if name == "up to 1 cores" else name.replace("_", " ")


By = Mapping[str, Sequence[Run]]

# A figure, what it is called, by what it is multiplied, and its digits.
FIGURES: dict[str, tuple[str, float, int]] = {
    "cpu_mean": ("CPU in use %", 100.0, 2),
    "memory_mean": ("Memory in use %", 100.0, 2),
    "gpu_mean": ("GPU in use %", 100.0, 2),
    "fragmented_mean": ("Fragmented GPU %", 100.0, 2),
    "stranded_cpu_mean": ("Stranded CPU %", 100.0, 2),
    "stranded_memory_mean": ("Stranded memory %", 100.0, 2),
    "overloaded_share": ("Overloaded hosts %", 100.0, 2),
    "wait_mean_s": ("Mean wait, minutes", 1 / 60, 2),
    "wait_p95_s": ("95 % waited at most, minutes", 1 / 60, 2),
    "began": ("Guests that began", 1.0, 1),
    "finished": ("Guests that finished", 1.0, 1),
    "dropped": ("Dropped guests", 1.0, 1),
    "gave_up": ("Guests that gave up", 1.0, 1),
    "evictions": ("Evictions", 1.0, 1),
    "restarts": ("Restarts", 1.0, 1),
    "migrations": ("Migrations", 1.0, 1),
    "host_failures": ("Failures of hosts", 1.0, 1),
    "lost_work_s": ("Lost work, hours", 1 / 3600, 2),
}
_NEUTRAL = ("began", "host_failures", "memory_mean")  # more of it is neither good nor bad
# A series, its title, its unit, and by what it is multiplied.
_SERIES = (
    ("cpu", "CPU in use", "% of all, by the requests of guests", 100.0),
    ("gpu", "GPU in use", "% of all", 100.0),
    ("memory", "Memory in use", "% of all, by the requests of guests", 100.0),
    ("waiting", "Waiting guests", "", 1.0),
    ("fragmented", "Fragmented GPU", "% of all GPUs, idle but of no use", 100.0),
    ("stranded_cpu", "Stranded CPU", "% of all: free where no usual guest fits", 100.0),
    ("load", "CPU really used", "% of all", 100.0),
    ("overloaded_hosts", "Overloaded hosts", "hosts whose guests use more CPU than there is", 1.0),
)
_MOST_MAPS = 8


def scenario_part(experiment: Experiment, colors: PolicyColors) -> Markup:
    """Return everything about one scenario."""
    shared = experiment.shared()
    by_policy = {policy: shared.of(policy) for policy in shared.policies}
    charts = [*_charts(by_policy, colors), *failure_figure(by_policy, colors)]
    names = [name for name in usual_figures([run.figures for run in shared.runs]) if name in FIGURES]
    rows = compare_policies(_scaled(shared), names) if names else []
    said = _verdict(rows)
    parts = [tag("p", said, class_="lead") if said else "", legend(shared.policies, colors)]
    parts.append(_table(experiment.label, by_policy))
    if len(by_policy) > 1:
        titles = {name: title for name, (title, _, _) in FIGURES.items()}
        parts.append(details("Differences, run by run", comparison_table(experiment.label, rows, titles)))
    if charts:
        parts.append(tag("div", *charts, class_="charts"))
    else:
        parts.append(
            tag(
                "p",
                "These results have no measurements in time: sweeps of older versions kept figures only.",
                class_="note",
            )
        )
    parts += [*waits_tables(by_policy), *_maps(by_policy)]
    return tag("div", *parts)


def _verdict(rows: Sequence[ComparisonRow]) -> str:
    """Say which policy is best by waiting time, or by use if no guest waits."""
    for name, what, unit in (
        ("wait_mean_s", "of mean wait", " minutes"),
        ("gpu_mean", "of all GPUs in use", " %"),
        ("cpu_mean", "of all CPU in use", " %"),
    ):
        found = [row for row in rows if row.figure == name]
        if found:
            return verdict_text(found, what, unit)
    return ""


def _scaled(experiment: Experiment) -> Experiment:
    """Return the figures in the units of the page."""

    def scaled(run: Run) -> Run:
        return run._replace(figures={name: value * _factor(name) for name, value in run.figures.items()})

    return Experiment(experiment.label, [scaled(run) for run in experiment.runs])


def _factor(name: str) -> float:
    return FIGURES[name][1] if name in FIGURES else 1.0


def _table(label: str, by_policy: By) -> Markup:
    """Return figures by policy, without those that are zero everywhere; the best is bold."""
    rows: list[list[str]] = []
    bold = []
    for name, (title, factor, digits) in FIGURES.items():
        values = {
            policy: [factor * run.figures[name] for run in runs if name in run.figures]
            for policy, runs in by_policy.items()
        }
        if not any(value for each in values.values() for value in each):
            continue
        means = [mean(each) if each else None for each in values.values()]
        if name not in _NEUTRAL:
            bold += [(len(rows), 1 + place) for place in best_places(means, name)]
        shown = [
            mean_and_spread(each, digits if len(each) > 1 or factor != 1.0 else 0) if each else "-"
            for each in values.values()
        ]
        rows.append([title, *shown])
    rows.insert(0, ["Runs", *(f"{len(each):,}" for each in by_policy.values())])
    columns = [("", "left"), *((policy, "right") for policy in by_policy)]
    caption = f"{label}: mean ± standard deviation over seeds; zeros are left out"
    return table(caption, columns, rows, [(row + 1, column) for row, column in bold])


def _charts(by_policy: By, colors: PolicyColors) -> list[Markup]:
    """Return what was measured in time; what is zero everywhere is left out, but for the guests that wait."""
    found = []
    for column, title, unit, factor in _SERIES:
        lines = time_lines(by_policy, column, factor)
        if not lines or (column != "waiting" and not any(line.high.any() for line in lines)):
            continue
        if column == "load" and all(
            np.array_equal(line.mean, other.mean)
            for line, other in zip(lines, time_lines(by_policy, "cpu", factor), strict=True)
        ):
            continue
        x = time_scale(max(float(line.x[-1]) for line in lines))
        found.append(_chart(lines, colors, title, unit, x, is_share=factor != 1.0))
    return found


def _chart(
    lines: Sequence[ChartLine], colors: PolicyColors, title: str, unit: str, x: Scale, *, is_share: bool
) -> Markup:
    peaks = ", ".join(f"{line.policy} {figure_text(float(line.mean.max()))}" for line in lines)
    x_title = f"time ({x.unit})"
    chart = line_chart(
        lines,
        colors,
        title=title,
        description=f"{unit or title} over {x_title}. Highest means: {peaks}.",
        x=x,
        y=value_scale(lines),
        x_title=x_title,
        is_stepped=True,
    )
    numbers = lines_table(lines, x, x_title.capitalize(), f"{title}: mean over seeds", 2 if is_share else 1)
    return frame_chart(title, unit, chart, numbers)


def _maps(by_policy: By) -> list[Markup]:
    """Return a heat map of the hosts for each policy, of its first run that has one."""
    found: dict[str, ScenarioOutcome] = {}
    for policy, runs in by_policy.items():
        drawn = [run.outcome for run in runs if run.outcome and run.outcome.series.by_host]
        drawn = [each for each in drawn if each.series.by_host[0]]
        if drawn and len(found) < _MOST_MAPS:
            found[policy] = drawn[0]
    if not found:
        return []
    x = time_scale(max(outcome.series.at_s[-1] for outcome in found.values()))
    figures, rows = [], []
    for policy, outcome in found.items():
        shares = 100 * np.asarray(outcome.series.by_host, dtype=np.float64)
        hosts = shares.mean(axis=0)
        told = [float(hosts.mean()), float(hosts.min()), float(hosts.max()), float(shares.max())]
        rows.append([policy, f"{outcome.seed}", f"{len(hosts):,}", *(figure_text(value) for value in told)])
        title = f"Hosts in time, {policy}"
        description = f"Share in use of each host, seed {outcome.seed}: on average {figure_text(told[0])} percent."
        chart = heat_map(outcome, x, title=title, description=description)
        figures.append(frame_chart(title, f"host by number, seed {outcome.seed}", chart))
    columns = [("Policy", "left"), ("Seed", "right"), ("Hosts shown", "right"), ("Mean %", "right")]
    columns += [("Emptiest host %", "right"), ("Fullest host %", "right"), ("Highest %", "right")]
    numbers = details("Numbers", table("Share in use of the hosts in the maps", columns, rows))
    return [tag("h3", "Hosts"), heat_key(), tag("div", *figures, class_="charts"), numbers]
