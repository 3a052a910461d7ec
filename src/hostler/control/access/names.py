"""Names: never in the form of an id, and the order in which lists show them. Pure."""

from __future__ import annotations

import re

from hostler.errors import InputError

__all__ = ["by_number", "check_not_id"]

_ID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_NUMBERS = re.compile(r"([0-9]{1,18})")


def check_not_id(name: str, what: str) -> None:
    """Reject a name in the form of an id, because commands and paths accept both; InputError."""
    if _ID.fullmatch(name) is not None:
        hint = "choose another name: 32 digits from 0 to f are an id, with dashes or without"
        raise InputError(f"{name!r} is not a name for a {what}: it has the form of an id", hint=hint)


def by_number(name: str) -> list[tuple[int, str]]:
    """Return the sort key of a name: digits in it compare as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBERS.split(name) if part]
