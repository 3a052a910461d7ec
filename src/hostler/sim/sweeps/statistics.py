"""Means, spreads and confidence intervals, by formulas that need no package.

Student's distribution comes from the regularised incomplete beta function, by its continued fraction (Numerical Recipes
6.4; DLMF 8.17.22), good to about 1e-14; quantiles are found by halving.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Interval", "incomplete_beta", "mean", "paired_interval", "spread", "student_cdf", "student_quantile"]

_STEPS = 500
_TINY = 1e-300
_EXACT = 1e-16


class Interval(NamedTuple):
    """A mean difference, and how far from it the true one may be; None where one pair alone says nothing."""

    difference: float
    margin: float | None

    @property
    def is_clear(self) -> bool:
        """Say whether the true difference has the sign of the measured one, as far as we know."""
        return self.margin is not None and abs(self.difference) > self.margin


def mean(values: Sequence[float]) -> float:
    """Return the mean; the sum is exact, so that the order of values does not count."""
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def paired_interval(values: Sequence[float], others: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the mean of the differences of pairs, with its confidence interval by Student."""
    differences = [value - other for value, other in zip(values, others, strict=True)]
    if len(differences) < 2:
        return Interval(mean(differences), None)
    quantile = student_quantile(0.5 + confidence / 2, len(differences) - 1)
    return Interval(mean(differences), quantile * spread(differences) / math.sqrt(len(differences)))


def student_quantile(probability: float, freedom: int) -> float:
    """Return the value below which Student's distribution has this probability."""
    if not 0 < probability < 1 or freedom < 1:
        raise ValueError("a probability lies between 0 and 1, and there is at least one degree of freedom")
    if probability < 0.5:
        return -student_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < probability:
        low, high = high, 2 * high
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if student_cdf(middle, freedom) < probability:
            low = middle
        else:
            high = middle


def student_cdf(value: float, freedom: int) -> float:
    """Return the probability that Student's variable is at most this value."""
    tail = incomplete_beta(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return 1 - tail if value > 0 else tail


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    # The fraction converges quickly on this side of the mean; the other side is its mirror image.
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction by Lentz's method."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _EXACT:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
