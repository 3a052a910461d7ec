"""Notes: what the words of a report mean."""

from __future__ import annotations

from hostler.sim.report.markup import Markup, joined, tag

__all__ = ["notes"]

_COMMON = (
    ("band", "from the least to the most of all seeds; the line is their mean. Bars have a thin line instead."),
    ("spread", "standard deviation over seeds, after ±."),
    ("to the best", "mean difference of runs with the same arrivals to the policy that is best on average."),
    ("95 % within", "Student's interval: the true difference lies within so much of the measured one."),
    ("wins", "runs in which nobody was better; ties count for all."),
)
_FILLING = (
    ("filling", "guests arrive one by one and never leave; who fits nowhere has failed."),
    ("allocated", "GPU of guests that were placed. The diagonal is what was asked for."),
    ("fragmented", "idle GPU on hosts where a guest of the typical mix cannot use it."),
    ("ratio", "the fragmented share of what is idle."),
)
_SCENARIO = (
    ("in use", "what guests that run asked for, as a share of what all hosts have."),
    ("stranded", "free on hosts where none of the usual guests fits."),
    ("waiting", "from the arrival of a guest to its start; only guests that began are counted."),
    ("lost work", "what guests did since their last checkpoint, when they were stopped."),
)


def notes(*, has_fillings: bool, has_scenarios: bool) -> Markup:
    """Return the notes on what a report holds."""
    words = [*(_FILLING if has_fillings else ()), *(_SCENARIO if has_scenarios else ()), *_COMMON]
    listed = joined(joined((tag("dt", word), tag("dd", meaning))) for word, meaning in words)
    return tag("aside", tag("h3", "How to read this"), tag("dl", listed), class_="notes")
