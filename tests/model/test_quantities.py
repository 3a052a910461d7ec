"""Amounts as people write them, to integers and back, by Kubernetes' rules."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.errors import QuantityError
from hostler.model import (
    MAX_AMOUNT,
    add_amounts,
    amount_of,
    amounts,
    format_amount,
    format_resource,
    parse_amounts,
    parse_quantity,
    parse_ratio,
    parse_resource,
)
from tests.model.strategies import resources


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("2", 2, id="plain"),
        pytest.param(7, 7, id="integer"),
        pytest.param(2.0, 2, id="float"),
        pytest.param(" 3 ", 3, id="blanks-around"),
        pytest.param("+4", 4, id="plus-sign"),
        pytest.param("1Ki", 1024, id="Ki"),
        pytest.param("2Gi", 2 << 30, id="Gi"),
        pytest.param("1.5Gi", 3 << 29, id="fraction-of-Gi"),
        pytest.param("4Ei", MAX_AMOUNT, id="largest"),
        pytest.param("500M", 500_000_000, id="M"),
        pytest.param("1k", 1000, id="k"),
        pytest.param("1E", 10**18, id="E-is-exa"),
        pytest.param("1E3", 1000, id="E-before-digits-is-an-exponent"),
        pytest.param("1e3", 1000, id="exponent"),
        pytest.param("12e-1", 2, id="negative-exponent-rounds-up"),
        pytest.param(".5", 1, id="leading-point-rounds-up"),
        pytest.param("5.", 5, id="trailing-point"),
        pytest.param("1m", 1, id="a-thousandth-rounds-up-to-one"),
        pytest.param("1500m", 2, id="milli-rounds-up"),
        pytest.param("1n", 1, id="nano-rounds-up"),
        pytest.param("0m", 0, id="no-thousandth-is-zero"),
        pytest.param("1e-40", 1, id="tiny-rounds-up"),
        pytest.param("0e999999999", 0, id="zero-with-a-huge-exponent"),
        pytest.param(1e18, 10**18, id="large-float"),
    ],
)
def test_amount_is_read_and_rounded_up_to_the_unit(text, amount):
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        pytest.param("1500m", 1500, id="milli"),
        pytest.param("0.5", 500, id="half"),
        pytest.param(0.1, 100, id="float"),
        pytest.param("100u", 1, id="less-than-a-milli-rounds-up"),
        pytest.param("2", 2000, id="whole"),
        pytest.param("1e3", 1_000_000, id="exponent"),
    ],
)
def test_cpu_is_read_in_thousandths(text, millis):
    assert parse_resource("cpu", text) == millis


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("", id="empty"),
        pytest.param("-1", id="negative"),
        pytest.param(-1, id="negative-integer"),
        pytest.param("-1m", id="negative-milli"),
        pytest.param("nan", id="nan"),
        pytest.param(float("nan"), id="float-nan"),
        pytest.param(float("inf"), id="float-infinity"),
        pytest.param(float("-inf"), id="float-minus-infinity"),
        pytest.param("1Gb", id="unknown-suffix"),
        pytest.param("1 Gi", id="blank-inside"),
        pytest.param("1K", id="capital-k"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("1_000", id="underscore"),
        pytest.param("1e", id="exponent-without-digits"),
        pytest.param("1e3Gi", id="exponent-and-suffix"),
        pytest.param(".", id="only-a-point"),
        pytest.param("Gi", id="only-a-suffix"),
        pytest.param("٣", id="digits-of-another-script"),
        pytest.param(True, id="true"),
        pytest.param(None, id="none"),
        pytest.param([], id="list"),
        pytest.param("4611686018427387905", id="one-beyond-the-limit"),
        pytest.param("5Ei", id="beyond-the-limit"),
        pytest.param("1e999999999", id="huge-exponent"),
        pytest.param(10**30, id="huge-integer"),
        pytest.param("9" * 65, id="too-long"),
        pytest.param(1e300, id="huge-float"),
    ],
)
def test_what_is_no_amount_is_refused_with_a_hint(bad):
    with pytest.raises(QuantityError) as caught:
        parse_quantity(bad)
    assert caught.value.hint
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("resource", "hint"),
    [
        ("cpu", 'write it as 2, "1500m" or "0.5"'),
        ("memory", 'write it as "2Gi", "512Mi" or a number of bytes'),
        ("hugepages-2Mi", 'write it as "2Gi", "512Mi" or a number of bytes'),
        ("guests", 'write it as 2 or "1k"'),
    ],
)
@pytest.mark.parametrize("bad", ["2x", True])
def test_the_hint_fits_the_resource(resource, hint, bad):
    with pytest.raises(QuantityError) as caught:
        parse_resource(resource, bad)
    assert caught.value.hint == hint


def test_the_hint_of_a_ratio_is_a_ratio():
    with pytest.raises(QuantityError) as caught:
        parse_ratio("2x")
    assert caught.value.hint == 'write a plain number such as "1.5"'


@given(st.integers(0, MAX_AMOUNT), resources)
def test_written_amount_reads_back_the_same(amount, resource):
    assert parse_resource(resource, format_resource(resource, amount)) == amount


@given(st.integers(0, MAX_AMOUNT), st.sampled_from([1, 1000]), st.booleans())
def test_shortest_form_is_exact(amount, per_unit, binary):
    assert parse_quantity(format_amount(amount, per_unit=per_unit, binary=binary), per_unit=per_unit) == amount


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.sampled_from(["", "m", "k", "Ki", "Mi", "u"]))
def test_amount_is_the_ceiling_of_its_exact_value(whole, part, suffix):
    factors: dict[str, int | Fraction] = {
        "": 1,
        "m": Fraction(1, 1000),
        "k": 1000,
        "Ki": 1024,
        "Mi": 1 << 20,
        "u": Fraction(1, 10**6),
    }
    exact = Fraction(f"{whole}.{part:09d}") * Fraction(factors[suffix])
    assert parse_quantity(f"{whole}.{part:09d}{suffix}") == -(-exact.numerator // exact.denominator)


@given(st.floats(0, 1e15))
def test_float_is_never_rounded_down(value):
    assert parse_quantity(value) >= value


@given(st.text(max_size=12))
def test_any_text_is_an_amount_or_a_quantity_error(text):
    with suppress(QuantityError):
        assert 0 <= parse_quantity(text) <= MAX_AMOUNT


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        pytest.param("cpu", 1500, "1500m", id="milli-cpu"),
        pytest.param("cpu", 2000, "2", id="whole-cpu"),
        pytest.param("memory", 2 << 30, "2Gi", id="memory"),
        pytest.param("memory", 1000, "1000", id="odd-memory"),
        pytest.param("hugepages-2Mi", 4 << 20, "4Mi", id="hugepages"),
        pytest.param("guests", 1024, "1024", id="pieces-have-no-binary-suffix"),
        pytest.param("memory", -(1 << 30), "-1Gi", id="what-is-missing"),
        pytest.param("memory", 0, "0", id="zero"),
    ],
)
def test_amount_is_written_as_a_person_would(resource, amount, text):
    assert format_resource(resource, amount) == text


@pytest.mark.parametrize(
    ("text", "millionths"),
    [
        pytest.param("1.5", 1_500_000, id="text"),
        pytest.param(1.5, 1_500_000, id="float"),
        pytest.param(2, 2_000_000, id="integer"),
        pytest.param("0.000001", 1, id="smallest"),
        pytest.param(1e-06, 1, id="smallest-float"),
        pytest.param("1e6", 10**12, id="largest"),
        pytest.param("900m", 900_000, id="milli"),
    ],
)
def test_ratio_is_read_in_millionths(text, millionths):
    assert parse_ratio(text) == millionths


@pytest.mark.parametrize("bad", ["0", "-1", "0.0000001", "1000001", "x", float("nan"), float("inf"), True])
def test_ratio_out_of_range_or_too_fine_is_refused(bad):
    with pytest.raises(QuantityError):
        parse_ratio(bad)


def test_amounts_are_sorted_by_name_and_drop_zeros():
    assert parse_amounts({"memory": "1Ki", "cpu": 1, "storage": 0}) == (("cpu", 1000), ("memory", 1024))


@pytest.mark.parametrize("bad", [{"": 1}, {"cpu": -1}, {"cpu": MAX_AMOUNT + 1}])
def test_amounts_without_name_or_out_of_range_are_refused(bad):
    with pytest.raises(QuantityError):
        amounts(bad)


def test_sums_add_up_by_resource():
    total = add_amounts([amounts({"cpu": 1, "memory": 5}), amounts({"cpu": 2}), ()])
    assert (amount_of(total, "cpu"), amount_of(total, "memory"), amount_of(total, "gpu")) == (3, 5, 0)
