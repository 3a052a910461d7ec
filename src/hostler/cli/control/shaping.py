"""Options to the shapes that REST takes, with errors that a person can act on."""

from __future__ import annotations

from typing import Any, TypeVar

from hostler.errors import InputError

__all__ = ["valid"]

T = TypeVar("T")

_NAMES = ("name", "project", "gang")
_NAME_HINT = "letters, digits, '-', '_', '.'; at most 63, of which the first and the last are neither '-' nor '.'"


def valid(shape: type[T], words: dict[str, Any]) -> T:
    """Return a shape of words; InputError where the server would refuse them."""
    import msgspec

    try:
        return msgspec.convert(words, shape)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`") or "the options"
        if "matching regex" in what or (field in _NAMES and "of length" in what):
            word = str(words.get(field, ""))
            raise InputError(f"{field}: {word[:60]!r} is not a name", hint=_NAME_HINT) from None
        raise InputError(f"{field}: {what[:1].lower()}{what[1:]}", hint="see --help for what it may be") from None
