"""What a valid name is, and the one error for other words, for REST, files and commands. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hostler.errors import InputError

__all__ = ["NAME_PATTERN", "check_name", "find_name_error", "name_error"]

_LONGEST = 63
# By itself $ would let a line end follow; \Z, which would not, is unknown to those who read the description.
NAME_PATTERN = r"^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9_])?$(?!\n)"
_NAME = re.compile(NAME_PATTERN)
_HINT = "at most 63 letters, digits, '-', '_' and '.'; the first and the last are neither '-' nor '.'"
_REFUSED = re.compile(
    rf"Expected `str` (?:matching regex .*|of length (?:<= {_LONGEST}|>= 1)) - at `\$\.(?P<place>.*)`", re.DOTALL
)
_STEP = re.compile(r"(?P<key>[A-Za-z_][A-Za-z0-9_]*)|\[(?P<index>[0-9]+)\]")


def check_name(place: str, word: str) -> None:
    """Reject an invalid name; InputError."""
    if _NAME.match(word) is None:
        raise name_error(place, word)


def name_error(place: str, word: str) -> InputError:
    """Return the error for an invalid name."""
    return InputError(f"{place}: {word[:60]!r} is not a name", hint=_HINT)


def find_name_error(problem: str, data: object) -> InputError | None:
    """Return that error if a decoder rejected a name somewhere in ``data``; otherwise None."""
    found = _REFUSED.fullmatch(problem)
    if found is None:
        return None
    place = found["place"]
    word = _value_at(data, place)
    return name_error(place, word) if isinstance(word, str) and _NAME.match(word) is None else None


def _value_at(data: object, place: str) -> object:
    value = data
    for step in _STEP.finditer(place):
        if step["key"] is not None:
            value = value.get(step["key"]) if isinstance(value, Mapping) else None
        else:
            at = int(step["index"])
            value = value[at] if isinstance(value, Sequence) and at < len(value) else None
    return value
