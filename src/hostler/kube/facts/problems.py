"""Objects that cannot be taken as they are, by name, and what is wrong with each. Used by every module here."""

from __future__ import annotations

from hostler.errors import HostlerError

__all__ = ["CONVERSION_ERRORS", "Problems", "text_of"]

# One odd object must never stop the others, so what a conversion may stumble over is caught, ours or not.
CONVERSION_ERRORS = (HostlerError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_MAX_TEXT = 500  # an event's note has room for about twice as much


class Problems:
    """What is wrong with which object."""

    def __init__(self) -> None:
        self.by_place: dict[str, str] = {}

    def note(self, place: str, text: str) -> None:
        """Remember what is wrong with an object; nothing: all is well again."""
        if text:
            self.by_place[place] = text
        else:
            self.by_place.pop(place, None)


def text_of(error: Exception) -> str:
    """Say what went wrong in one line that fits an event."""
    if isinstance(error, HostlerError):
        text = f"{error.message}; {error.hint}" if error.hint else error.message
    else:
        text = f"{type(error).__name__}: {error}"
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
