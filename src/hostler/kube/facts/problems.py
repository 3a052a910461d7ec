"""Objects that cannot be converted, by name, and why. Used by every module of this package."""

from __future__ import annotations

from hostler.errors import HostlerError

__all__ = ["CONVERSION_ERRORS", "ObjectProblems", "text_of"]

# One odd object must never stop the others, so all errors of conversions are caught, even bugs.
CONVERSION_ERRORS = (HostlerError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_MAX_TEXT = 500  # an event's note can hold about twice as much


class ObjectProblems:
    """The problem of each such object."""

    def __init__(self) -> None:
        self.by_place: dict[str, str] = {}

    def note(self, place: str, text: str) -> None:
        """Record an object's problem; an empty text clears it."""
        if text:
            self.by_place[place] = text
        else:
            self.by_place.pop(place, None)


def text_of(error: Exception) -> str:
    """Describe an error in one line that fits into an event."""
    if isinstance(error, HostlerError):
        text = f"{error.message}; {error.hint}" if error.hint else error.message
    else:
        text = f"{type(error).__name__}: {error}"
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
