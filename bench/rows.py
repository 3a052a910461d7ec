"""Figures from several runs: rates, medians and percentiles, and how one cost compares with another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

from bench.results import Row

__all__ = ["QUICK_RUNS", "RUNS", "Timed", "latency_rows", "median_and_p99", "rate_row"]

RUNS = 3
QUICK_RUNS = 1  # no figure of a quick run is judged, so the best of several is not needed
LONG_S = 60.0  # what takes longer is not repeated

Timed = Callable[[], float]


def rate_row(
    name: str, what: str, decisions: int, once: Timed, target: float | None = None, note: str = "",
    *, runs: int = RUNS,
) -> Row:  # fmt: skip
    """Return how many decisions a second the best run made."""
    rates: list[float] = []
    began = perf_counter()
    while len(rates) < runs and (not rates or perf_counter() - began < LONG_S):
        rates.append(round(decisions / once(), 1))
    return Row(name=name, what=what, unit="/s", target=target, measured=max(rates), runs=tuple(rates), note=note)


def median_and_p99(seconds: Sequence[float]) -> tuple[float, float]:
    """Return median and 99th percentile in milliseconds."""
    times = sorted(seconds)
    return 1000 * times[len(times) // 2], 1000 * times[int(len(times) * 0.99)]


def latency_rows(
    name: str, what: str, figures: Sequence[tuple[float, float]], targets: tuple[float | None, float | None]
) -> Iterator[Row]:
    """Return two rows, median and 99th percentile, from one pair per run."""
    for part, label in enumerate(("median", "p99")):
        runs = tuple(round(figure[part], 4) for figure in figures)
        yield Row(
            name=f"{name} {label}",
            what=what,
            unit="ms",
            target=targets[part],
            sense="at most",
            measured=min(runs),
            runs=runs,
        )
