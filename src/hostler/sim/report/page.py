"""The page: header, parts, tables of all runs, notes; style and behaviour are put inside, so that it is one file."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from hostler._version import __version__
from hostler.sim.report.drawing import Colours
from hostler.sim.report.fillings import filling_part
from hostler.sim.report.markup import Markup, joined, raw, tag
from hostler.sim.report.notes import notes
from hostler.sim.report.run_tables import broken_table, filling_runs, scenario_runs
from hostler.sim.report.runs import Experiment, Result, Runs, collect, run_of
from hostler.sim.report.scenarios import scenario_part
from hostler.sim.report.summary import matrix
from hostler.sim.report.tables import details

__all__ = ["report"]

# Nothing may be fetched, and nothing sent, whatever is in the results.
_RULES = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def report(results: Iterable[Result]) -> str:
    """Return results as one HTML page; the same results give the same page."""
    runs = collect(("", run_of(result)) for result in results)
    parts = [*_parts(runs), *_tables(runs)]
    parts.insert(-1, notes(has_fillings=bool(runs.fillings), has_scenarios=bool(runs.scenarios)))
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


def _about(runs: Runs) -> str:
    seeds = {run.seed for run in runs.all}
    experiments = len(runs.fillings) + len(runs.scenarios)
    said = [_counted(len(runs.policies), "policy", "policies")]
    said.append(_counted(experiments, "experiment", "experiments"))
    said.append(_counted(len(seeds), "seed", "seeds"))
    broken = f" {_counted(len(runs.broken), 'run', 'runs')} failed." if runs.broken else ""
    return f"{_counted(len(runs.all), 'run', 'runs')}: {', '.join(said)}.{broken} Made by Hostler {__version__}."


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _contents(runs: Runs) -> Markup:
    """Return links to the parts, where there are several."""
    titles = [*_titles(runs.fillings, "f"), *_titles(runs.scenarios, "s")]
    if len(titles) < 2:
        return raw("")
    links = [tag("a", title, href=f"#{name}") for name, title in titles]
    return tag("nav", joined(links, " "), aria_label="Parts")


def _titles(experiments: list[Experiment], letter: str) -> list[tuple[str, str]]:
    return [(f"{letter}{at}", experiment.label) for at, experiment in enumerate(experiments)]


def _parts(runs: Runs) -> list[Markup]:
    """Return all parts; a policy has one colour throughout, and the first colours are used first."""
    fillings, scenarios = _policies(runs.fillings), _policies(runs.scenarios)
    if set(fillings) & set(scenarios):
        colours = others = Colours(runs.policies)
    else:
        colours, others = Colours(fillings), Colours(scenarios, len(fillings))
    return [*_filling_parts(runs, colours), *_scenario_parts(runs, others)]


def _policies(experiments: list[Experiment]) -> list[str]:
    return list(dict.fromkeys(policy for each in experiments for policy in each.policies))


def _filling_parts(runs: Runs, colours: Colours) -> list[Markup]:
    if not runs.fillings:
        return []
    parts = []
    if len(runs.fillings) > 1:
        caption = "Allocated GPU after the last arrival, % of all GPUs; mean ± standard deviation over seeds"
        overview = matrix(runs.fillings, _policies(runs.fillings), "gpu_percent", caption)
        parts.append(tag("section", tag("h2", "All workloads"), overview))
    for (name, title), experiment in zip(_titles(runs.fillings, "f"), runs.fillings, strict=True):
        heading = tag("h2", "Filling the fleet: ", tag("em", title))
        parts.append(tag("section", heading, filling_part(experiment, colours, runs.bounds), id=name))
    return parts


def _scenario_parts(runs: Runs, colours: Colours) -> list[Markup]:
    return [
        tag("section", tag("h2", "Scenario: ", tag("em", title)), scenario_part(experiment, colours), id=name)
        for (name, title), experiment in zip(_titles(runs.scenarios, "s"), runs.scenarios, strict=True)
    ]


def _tables(runs: Runs) -> list[Markup]:
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
