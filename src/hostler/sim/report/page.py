"""The page: header, parts, tables of all runs, notes on what the words mean.

Style and behavior are put inside, so that the page is one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from hostler._version import __version__
from hostler.sim.report.charts.canvas import PolicyColors, figure_text
from hostler.sim.report.fillings import filling_part
from hostler.sim.report.markup import Markup, details, join_markup, raw, table, tag
from hostler.sim.report.runs import Experiment, ReportRuns, Result, Run, collect_runs, run_of
from hostler.sim.report.scenarios import FIGURES, scenario_part
from hostler.sim.report.summary import workload_matrix

__all__ = ["broken_table", "filling_runs", "report_notes", "report_page", "scenario_runs"]

_COMMON = (
    ("band", "from the least to the most of all seeds; the line is their mean. Bars have a thin line instead."),
    ("spread", "standard deviation over seeds, after ±."),
    ("to the best", "mean difference of runs with the same arrivals to the policy that is best on average."),
    ("95 % within", "Student's interval: the true difference lies within so much of the measured one."),
    ("wins", "runs in which no other policy was better; ties count for all."),
)
_FILLING = (
    ("filling", "guests arrive one by one and never leave; who fits nowhere has failed."),
    ("allocated", "GPU of guests that were placed. The diagonal is the requested GPU."),
    ("fragmented", "idle GPU on hosts where a guest of the typical mix cannot use it."),
    ("ratio", "the fragmented share of what is idle."),
)
_SCENARIO = (
    ("in use", "the requests of running guests, as a share of the capacity of all hosts."),
    ("stranded", "free on hosts where none of the usual guests fits."),
    ("waiting", "from the arrival of a guest to its start; only guests that began are counted."),
    ("lost work", "what guests did since their last checkpoint, when they were stopped."),
)


def report_notes(*, has_fillings: bool, has_scenarios: bool) -> Markup:
    """Return the notes on what a report holds."""
    words = [*(_FILLING if has_fillings else ()), *(_SCENARIO if has_scenarios else ()), *_COMMON]
    listed = join_markup(join_markup((tag("dt", word), tag("dd", meaning))) for word, meaning in words)
    return tag("aside", tag("h3", "How to read this"), tag("dl", listed), class_="notes")


_FIGURES = (
    ("gpu_percent", "GPU %", 2),
    ("cpu_percent", "CPU %", 2),
    ("memory_percent", "Memory %", 2),
    ("arrivals", "Arrivals", 0),
    ("failed", "Failed", 0),
    ("gpus_touched", "GPUs touched", 0),
    ("frag_percent", "Fragmented %", 2),
    ("gpu_percent_at_100", "GPU % at 100 %", 2),
)


def filling_runs(experiments: Sequence[Experiment]) -> Markup:
    """Return the runs of experiments in which guests never leave."""
    columns = [("Workload", "left"), ("Policy", "left"), ("Seed", "right")]
    columns += [(title, "right") for _, title, _ in _FIGURES]
    rows = []
    for experiment in experiments:
        for run in experiment.runs:
            cells = [_written(run, name, 1.0, digits) for name, _, digits in _FIGURES]
            rows.append([experiment.label, run.policy, f"{run.seed}", *cells])
    return table("Every run, after its last arrival", columns, rows)


def scenario_runs(experiments: Sequence[Experiment]) -> Markup:
    """Return the runs of scenarios; figures that are zero everywhere are left out."""
    runs = [run for experiment in experiments for run in experiment.runs]
    names = [name for name in FIGURES if any(run.figures.get(name) for run in runs)]
    columns = [("Scenario", "left"), ("Policy", "left"), ("Seed", "right")]
    columns += [(FIGURES[name][0], "right") for name in names]
    rows = []
    for run in runs:
        cells = []
        for name in names:
            _, factor, digits = FIGURES[name]
            cells.append(_written(run, name, factor, digits if factor != 1.0 else 0))
        rows.append([run.workload, run.policy, f"{run.seed}", *cells])
    return table("Every run", columns, rows)


def broken_table(runs: Sequence[Run]) -> Markup:
    """Return the runs that ended with an error."""
    columns = [("Workload", "left"), ("Policy", "left"), ("Seed", "right"), ("Error", "left")]
    rows = [[run.workload, run.policy or run.kind, f"{run.seed}", run.error] for run in runs]
    return table("Runs that failed, and are in no other table", columns, rows)


def _written(run: Run, name: str, factor: float, digits: int) -> str:
    return figure_text(factor * run.figures[name], digits) if name in run.figures else "-"


# Nothing may be fetched, and nothing sent, whatever is in the results.
_RULES = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def report_page(results: Iterable[Result]) -> str:
    """Return results as one HTML page; the same results give the same page."""
    runs = collect_runs(("", run_of(result)) for result in results)
    parts = [*_parts(runs), *_tables(runs)]
    parts.insert(-1, report_notes(has_fillings=bool(runs.fillings), has_scenarios=bool(runs.scenarios)))
    title = "Simulation report"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_RULES),
        tag("meta", name="generator", content=f"hostler {__version__}"),
        tag("title", ": ".join(filter(None, (title, ", ".join(runs.policies[:6]))))),
        tag("style", _own("style.css")),
    )
    body = tag(
        "body",
        tag("main", tag("header", tag("h1", title), tag("p", _about(runs))), _contents(runs), *parts),
        tag("div", id="tip", hidden=""),
        tag("script", _own("behaviour.js")),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, "\n", body, lang="en") + "\n"


def _own(name: str) -> Markup:
    return raw(files("hostler.sim.report").joinpath(name).read_text(encoding="utf-8"))


def _about(runs: ReportRuns) -> str:
    seeds = {run.seed for run in runs.all}
    experiments = len(runs.fillings) + len(runs.scenarios)
    said = [_counted(len(runs.policies), "policy", "policies")]
    said.append(_counted(experiments, "experiment", "experiments"))
    said.append(_counted(len(seeds), "seed", "seeds"))
    broken = f" {_counted(len(runs.broken), 'run', 'runs')} failed." if runs.broken else ""
    return f"{_counted(len(runs.all), 'run', 'runs')}: {', '.join(said)}.{broken} Made by Hostler {__version__}."


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _contents(runs: ReportRuns) -> Markup:
    """Return links to the parts, where there are several."""
    titles = [*_titles(runs.fillings, "f"), *_titles(runs.scenarios, "s")]
    if len(titles) < 2:
        return raw("")
    links = [tag("a", title, href=f"#{name}") for name, title in titles]
    return tag("nav", join_markup(links, " "), aria_label="Parts")


def _titles(experiments: list[Experiment], letter: str) -> list[tuple[str, str]]:
    return [(f"{letter}{at}", experiment.label) for at, experiment in enumerate(experiments)]


def _parts(runs: ReportRuns) -> list[Markup]:
    """Return all parts; a policy has one color throughout, and the first colors are used first."""
    fillings, scenarios = _policies(runs.fillings), _policies(runs.scenarios)
    if set(fillings) & set(scenarios):
        colors = others = PolicyColors(runs.policies)
    else:
        colors, others = PolicyColors(fillings), PolicyColors(scenarios, len(fillings))
    return [*_filling_parts(runs, colors), *_scenario_parts(runs, others)]


def _policies(experiments: list[Experiment]) -> list[str]:
    return list(dict.fromkeys(policy for each in experiments for policy in each.policies))


def _filling_parts(runs: ReportRuns, colors: PolicyColors) -> list[Markup]:
    if not runs.fillings:
        return []
    parts = []
    if len(runs.fillings) > 1:
        caption = "Allocated GPU after the last arrival, % of all GPUs; mean ± standard deviation over seeds"
        overview = workload_matrix(runs.fillings, _policies(runs.fillings), "gpu_percent", caption)
        parts.append(tag("section", tag("h2", "All workloads"), overview))
    for (name, title), experiment in zip(_titles(runs.fillings, "f"), runs.fillings, strict=True):
        heading = tag("h2", "Filling the fleet: ", tag("em", title))
        parts.append(tag("section", heading, filling_part(experiment, colors, runs.bounds), id=name))
    return parts


def _scenario_parts(runs: ReportRuns, colors: PolicyColors) -> list[Markup]:
    return [
        tag("section", tag("h2", "Scenario: ", tag("em", title)), scenario_part(experiment, colors), id=name)
        for (name, title), experiment in zip(_titles(runs.scenarios, "s"), runs.scenarios, strict=True)
    ]


def _tables(runs: ReportRuns) -> list[Markup]:
    """Return all runs, on demand; those that failed are shown at once."""
    tables = []
    if runs.fillings:
        count = sum(len(each.runs) for each in runs.fillings)
        tables.append(details(f"Runs that fill the fleet ({count:,})", filling_runs(runs.fillings)))
    if runs.scenarios:
        count = sum(len(each.runs) for each in runs.scenarios)
        tables.append(details(f"Runs of scenarios ({count:,})", scenario_runs(runs.scenarios)))
    if runs.broken:
        tables.append(broken_table(runs.broken))
    return [tag("section", tag("h2", "All runs"), *tables)]
