"""What a name is, and the one sentence for words that are none: of REST, of files and of commands. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hostler.errors import InputError

__all__ = ["NAME_PATTERN", "check_name", "not_a_name", "refused_name"]

_LONGEST = 63
# By itself $ would let a line end follow; \Z, which would not, is unknown to those who read the description.
NAME_PATTERN = r"^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9_])?$(?!\n)"
_NAME = re.compile(NAME_PATTERN)
_HINT = "letters, digits, '-', '_', '.'; at most 63, of which the first and the last are neither '-' nor '.'"
_REFUSED = re.compile(
    rf"Expected `str` (?:matching regex .*|of length (?:<= {_LONGEST}|>= 1)) - at `\$\.(?P<place>.*)`", re.DOTALL
)
_STEP = re.compile(r"(?P<key>[A-Za-z_][A-Za-z0-9_]*)|\[(?P<index>[0-9]+)\]")


def check_name(place: str, word: str) -> None:
    """Refuse a word that is no name; InputError."""
    if _NAME.match(word) is None:
        raise not_a_name(place, word)


def not_a_name(place: str, word: str) -> InputError:
    """Return the error for a word that is no name."""
    return InputError(f"{place}: {word[:60]!r} is not a name", hint=_HINT)


def refused_name(problem: str, data: object) -> InputError | None:
    """Return that error where a decoder, in its own words, refused a name somewhere in ``data``; None for the rest."""
    found = _REFUSED.fullmatch(problem)
    if found is None:
        return None
    place = found["place"]
    word = _value_at(data, place)
    return not_a_name(place, word) if isinstance(word, str) and _NAME.match(word) is None else None


def _value_at(data: object, place: str) -> object:
    value = data
    for step in _STEP.finditer(place):
        if step["key"] is not None:
            value = value.get(step["key"]) if isinstance(value, Mapping) else None
        else:
            at = int(step["index"])
            value = value[at] if isinstance(value, Sequence) and at < len(value) else None
    return value
