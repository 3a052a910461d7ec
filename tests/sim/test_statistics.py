"""Statistics: Student's quantiles as printed in tables, and intervals by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.sim.sweeps.statistics import incomplete_beta, mean, paired_interval, spread, student_cdf, student_quantile

# Two-sided 95 % and 99 %: NIST/SEMATECH e-Handbook, table 1.3.6.7.2.
TABLE = {
    (0.975, 1): 12.706, (0.975, 2): 4.303, (0.975, 3): 3.182, (0.975, 4): 2.776, (0.975, 5): 2.571,
    (0.975, 9): 2.262, (0.975, 10): 2.228, (0.975, 29): 2.045, (0.975, 30): 2.042, (0.975, 100): 1.984,
    (0.995, 1): 63.657, (0.995, 5): 4.032, (0.995, 10): 3.169, (0.995, 30): 2.750, (0.9, 7): 1.415, (0.95, 19): 1.729,
}  # fmt: skip


@pytest.mark.parametrize(("place", "value"), TABLE.items())
def test_quantiles_are_those_of_the_table(place, value):
    assert student_quantile(*place) == pytest.approx(value, abs=0.0005)


@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.995, 0.9999])
def test_quantiles_of_one_and_two_degrees_have_closed_forms(probability):
    assert student_quantile(probability, 1) == pytest.approx(math.tan(math.pi * (probability - 0.5)), rel=1e-9)
    offset = 2 * probability - 1
    assert student_quantile(probability, 2) == pytest.approx(offset * math.sqrt(2 / (1 - offset**2)), rel=1e-9)


def test_many_degrees_are_the_normal_distribution():
    assert student_quantile(0.975, 10**6) == pytest.approx(1.959966, abs=1e-5)


@given(st.floats(-50, 50), st.integers(1, 500))
def test_the_distribution_is_symmetric_and_its_quantile_is_its_inverse(value, freedom):
    below = student_cdf(value, freedom)
    assert below + student_cdf(-value, freedom) == pytest.approx(1)
    if 1e-6 < below < 1 - 1e-6:
        assert student_quantile(below, freedom) == pytest.approx(value, rel=1e-6, abs=1e-6)


def test_the_beta_function_of_whole_numbers_is_a_binomial_tail():
    # I_x(a, b) with a = 3, b = 4 is the chance of three or more successes in six trials.
    x = 0.3
    tail = sum(math.comb(6, k) * x**k * (1 - x) ** (6 - k) for k in range(3, 7))
    assert incomplete_beta(x, 3, 4) == pytest.approx(tail, rel=1e-12)


@pytest.mark.parametrize(("probability", "freedom"), [(0, 3), (1, 3), (0.5, 0)])
def test_what_is_no_probability_is_refused(probability, freedom):
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_quantile(probability, freedom)


def test_mean_and_spread_by_hand():
    assert mean([2, 4, 9]) == 5
    assert spread([2, 4, 9]) == pytest.approx(math.sqrt(13))
    assert spread([7]) == 0


def test_an_interval_is_that_of_the_paired_differences():
    # Differences 1, 2, 3: mean 2, standard error 1/sqrt(3), two degrees of freedom.
    found = paired_interval([11, 22, 33], [10, 20, 30])
    assert found.difference == 2
    assert found.margin == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert not found.is_clear


def test_one_pair_has_no_interval():
    assert paired_interval([3], [1]) == (2, None)
    assert not paired_interval([3], [1]).is_clear
