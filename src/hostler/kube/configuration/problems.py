"""Unsupported settings of a configuration: a note if placements stay the same, otherwise an error.

Used by the readers of both formats. With ``is_lenient`` the user accepts other placements, so errors become notes.
"""

from __future__ import annotations

from hostler.config import Document, describe_path, invalid
from hostler.config.key_paths import Path

__all__ = ["ConfigurationProblems"]

_LENIENT = "--lenient to continue without it"


class ConfigurationProblems:
    """Collects notes about one document."""

    def __init__(self, document: Document, *, is_lenient: bool = False) -> None:
        self.document = document
        self.is_lenient = is_lenient
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes in the order of their creation, each once."""
        return tuple(self._notes)

    def note(self, path: Path, text: str) -> None:
        """Add a note about a value that changes no placement."""
        self._notes[f"{self.document.where(path)}: {describe_path(path)} {text}"] = None

    def reject(self, path: Path, text: str, *, hint: str = "") -> None:
        """Reject a value that would change placements, unless the reader is lenient."""
        if not self.is_lenient:
            raise invalid(self.document, path, text, hint=f"{hint}, or {_LENIENT}" if hint else _LENIENT)
        self.note(path, text)
