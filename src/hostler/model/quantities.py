"""Amounts as people write them ("1500m", "2Gi", "0.5", "1e3") to integers of a fixed unit, and back.

The rules are Kubernetes' (apimachinery's ``resource.Quantity``): decimal suffixes n, u, m, k, M, G, T, P, E, binary
suffixes Ki … Ei, decimal exponents, and rounding *up* to the unit. Everything is exact integer arithmetic; an
amount beyond 2^62 units is refused, so that sums of two never overflow 64 bits.
"""

from __future__ import annotations

import re
from functools import lru_cache

from hostler.errors import QuantityError

__all__ = ["MAX_AMOUNT", "format_amount", "parse_quantity", "parse_ratio"]

MAX_AMOUNT = 2**62

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
# No amount below 2^62 needs more digits; the limit keeps a hostile "1e999999999" from becoming a huge integer.
_MAX_CHARACTERS = 64
_MAX_EXPONENT = 60
_ANY_FORM = 'write it as 2, "1500m", "2Gi", "0.5" or "1e3"'
_RATIO_FORM = 'write a plain number such as "1.5"'


def parse_quantity(value: str | int | float, *, per_unit: int = 1, form: str = _ANY_FORM) -> int:
    """Return ``value`` times ``per_unit``, rounded up to an integer (cpu in milli: ``per_unit=1000``).

    ``form`` is the hint if the value is not an amount.
    """
    return _parse_text(value if type(value) is str else _as_text(value, form), per_unit, form)


@lru_cache(maxsize=4096)  # a few amounts are written again and again
def _parse_text(value: str, per_unit: int, form: str) -> int:
    text = _as_text(value, form)
    numerator, denominator = _as_fraction(text, form)
    if numerator < 0:
        raise QuantityError(f"amount {text!r} is negative", hint="amounts are zero or more")
    amount = -(-numerator * per_unit // denominator)
    if amount > MAX_AMOUNT:
        raise QuantityError(
            f"amount {text!r} is larger than 2^62 units", hint="check the suffix: Gi is 2^30, G is 10^9"
        )
    return amount


def parse_ratio(value: str | int | float) -> int:
    """Return a ratio such as ``1.5`` in millionths, exactly; reject finer values."""
    text = _as_text(value, _RATIO_FORM)
    numerator, denominator = _as_fraction(text, _RATIO_FORM)
    millionths, rest = divmod(numerator * 1_000_000, denominator)
    if rest or not 0 < millionths <= 1_000_000_000_000:
        raise QuantityError(
            f"ratio {text!r} is not between 0.000001 and 1000000 with at most six decimals",
            hint=_RATIO_FORM,
        )
    return millionths


def format_amount(amount: int, *, per_unit: int = 1, binary: bool = False) -> str:
    """Write an amount in its shortest exact form; parsing it gives the same amount."""
    if per_unit == 1000:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if binary and amount:
        for suffix, power in reversed(_BINARY.items()):
            if amount % (1 << power) == 0:
                return f"{amount >> power}{suffix}"
    return str(amount)


def _as_text(value: str | int | float, form: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(f"amount {value!r} is not a number", hint=form)
    if isinstance(value, int) and abs(value) > MAX_AMOUNT:
        raise QuantityError("amount is larger than 2^62 units", hint="check the number of digits")
    text = value.strip() if isinstance(value, str) else repr(value)
    if len(text) > _MAX_CHARACTERS:
        raise QuantityError(f"amount {text[:20]!r}… is too long", hint="amounts have at most 64 characters")
    return text


def _as_fraction(text: str, form: str) -> tuple[int, int]:
    """Split a quantity into an exact numerator and denominator."""
    match = _PATTERN.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise QuantityError(f"amount {text!r} is not a quantity", hint=form)
    part = match["part"] or ""
    mantissa = int((match["whole"] or "") + part)
    if match["sign"] == "-":
        mantissa = -mantissa
    numerator, denominator = mantissa, 10 ** len(part)
    if match["suffix"] in _BINARY:
        return numerator << _BINARY[match["suffix"]], denominator
    exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL[match["suffix"] or ""]
    if exponent > _MAX_EXPONENT:
        exponent = _MAX_EXPONENT  # far beyond 2^62 already: refused by the caller
    if exponent >= 0:
        return numerator * 10**exponent, denominator
    return numerator, denominator * 10 ** min(-exponent, 2 * _MAX_EXPONENT)
