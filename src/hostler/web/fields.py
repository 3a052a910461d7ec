"""Fields of forms: values as typed, and errors that name the field. Pure."""

from __future__ import annotations

from hostler.errors import InputError

__all__ = ["pairs_of", "whole_number"]


def whole_number(place: str, text: str, least: int, most: int) -> int:
    """Return a number that lies between two others; InputError."""
    try:
        value = int(text[:40])
    except ValueError as error:
        raise InputError(f"{place}: {text[:40]!r} is not a whole number", hint=f"{least} to {most}") from error
    if not least <= value <= most:
        raise InputError(f"{place}: {value} is out of range", hint=f"{least} to {most}")
    return value


def pairs_of(place: str, text: str) -> dict[str, str]:
    """Return ``zone=a, disk=ssd`` as keys with values; InputError."""
    found = {}
    for pair in filter(None, (one.strip() for one in text.split(","))):
        key, is_pair, value = pair.partition("=")
        if not is_pair or not key.strip():
            raise InputError(f"{place}: {pair[:40]!r} is not key=value", hint="write zone=a, several with commas")
        found[key.strip()] = value.strip()
    return found
