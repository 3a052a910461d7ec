"""Options to the shapes that REST takes, with errors that a person can act on."""

from __future__ import annotations

from typing import Any, TypeVar

from hostler.errors import InputError

__all__ = ["valid"]

T = TypeVar("T")


def valid(shape: type[T], words: dict[str, Any]) -> T:
    """Return a shape of words; InputError where the server would refuse them."""
    import msgspec

    from hostler.control.vms.names import refused_name

    try:
        return msgspec.convert(words, shape)
    except msgspec.ValidationError as error:
        if (refused := refused_name(str(error), words)) is not None:
            raise refused from None
        what, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`") or "the options"
        raise InputError(f"{field}: {what[:1].lower()}{what[1:]}", hint="see --help for what it may be") from None
