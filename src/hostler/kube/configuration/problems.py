"""What a configuration asks for that is not done: told as a note where it changes nothing, else refused.

Used by the readers of both formats. With ``is_lenient`` a person has said that other placements will do: then what
would be refused becomes a note too.
"""

from __future__ import annotations

from hostler.config import Document, describe, invalid
from hostler.config.wording import Path

__all__ = ["Problems"]

_LENIENT = "--lenient to go on without"


class Problems:
    """Collects notes about one document."""

    def __init__(self, document: Document, *, is_lenient: bool = False) -> None:
        self.document = document
        self.is_lenient = is_lenient
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes in the order in which they were made, each once."""
        return tuple(self._notes)

    def note(self, path: Path, text: str) -> None:
        """Tell something about a value that changes no placement."""
        self._notes[f"{self.document.where(path)}: {describe(path)} {text}"] = None

    def refuse(self, path: Path, text: str, *, hint: str = "") -> None:
        """Refuse a value that would change placements, unless the reader is lenient."""
        if not self.is_lenient:
            raise invalid(self.document, path, text, hint=f"{hint}, or {_LENIENT}" if hint else _LENIENT)
        self.note(path, text)
