"""Tables of waiting times, by priority and by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hostler.sim.filling import KINDS
from hostler.sim.report.markup import Markup, tag
from hostler.sim.report.runs import Run
from hostler.sim.report.scales import figure, plain
from hostler.sim.report.tables import table
from hostler.sim.scenarios.outcome import Outcome, Waits
from hostler.sim.statistics import mean

__all__ = ["waits_tables"]

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
        _table("Priority", outcomes, lambda outcome: outcome.waits_by_priority, _by_priority),
        _table("Size", outcomes, lambda outcome: outcome.waits_by_size, _by_size),
    ]
    return [tag("h3", "Waiting times"), tag("div", *tables, class_="charts")]


def _table(
    heading: str,
    outcomes: Mapping[str, Sequence[Outcome]],
    groups: Callable[[Outcome], Mapping[str, Waits]],
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
                guests = plain(_mean(waits, "guests"))
                rows.append([_shown(name), policy, guests, *(figure(value / size) for value in told)])
    columns = [(heading, "left"), ("Policy", "left"), ("Guests", "right"), ("Mean", "right"), ("Median", "right")]
    columns += [("95 % below", "right"), ("Longest", "right")]
    return table(f"By {heading.lower()}, in {unit}; means over seeds, and the longest of all", columns, rows)


def _mean(waits: Sequence[Waits], name: str) -> float:
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
