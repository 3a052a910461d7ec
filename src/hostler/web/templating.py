"""Jinja with what all templates use. Everything is escaped; a name that nobody passed is an error, not a gap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hostler.web import wording
from hostler.web.verdicts import changes_text

__all__ = ["make_environment", "tone_of", "with_query"]

_FOLDER = Path(__file__).parent / "templates"
_TONES = {
    "running": "good", "ready": "good", "done": "good",
    "pending": "warn", "creating": "warn", "starting": "warn", "stopping": "warn", "migrating": "warn",
    "resizing": "warn", "deleting": "warn", "cordoned": "warn", "draining": "warn", "joined": "warn",
    "failed": "bad", "unknown": "bad", "lost": "bad", "silent": "bad", "offline": "bad", "fenced": "bad",
    "unregistered": "bad",
}  # fmt: skip


def tone_of(state: str) -> str:
    """Return how a state is coloured; the word stands beside it."""
    return _TONES.get(state, "")


def with_query(path: str, **values: str | int | None) -> str:
    """Return an address with those values that say something."""
    kept = {name: value for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(kept)}" if kept else path


def make_environment(asset: Callable[[str], str]) -> Environment:
    """Return what renders the templates."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"asset": asset, "tone_of": tone_of, "link": with_query}
    environment.filters |= {
        "amount": wording.asked_text,
        "bytes": wording.bytes_text,
        "cpu": wording.cpu_text,
        "stamp": wording.stamp,
        "plural": wording.plural,
        "reasons": wording.reasons_text,
        "part": lambda text: quote(str(text), safe=""),
        "pretty": _pretty,
        "ago": wording.ago_text,
        "disks": wording.disks_text,
        "size": wording.size_text,
        "changes": changes_text,
    }
    return environment


def _pretty(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
