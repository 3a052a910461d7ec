"""The Jinja environment of all templates. Everything is escaped; a name that was not passed is an error, not a gap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hostler.model.vocabulary import plural
from hostler.web import texts
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
    """Return the color class of a state; the page shows the word beside it."""
    return _TONES.get(state, "")


def with_query(path: str, **values: str | int | None) -> str:
    """Return an address with the values that are not empty."""
    kept = {name: value for name, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(kept)}" if kept else path


def make_environment(asset: Callable[[str], str]) -> Environment:
    """Return the environment that renders the templates."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"asset": asset, "tone_of": tone_of, "link": with_query}
    environment.filters |= {
        "amount": texts.spec_amount_text,
        "bytes": texts.bytes_text,
        "cpu": texts.cpu_text,
        "stamp": texts.time_text,
        "plural": plural,
        "reasons": texts.reasons_text,
        "part": lambda text: quote(str(text), safe=""),
        "pretty": _pretty,
        "ago": texts.ago_text,
        "disks": texts.disks_text,
        "size": texts.size_text,
        "changes": changes_text,
    }
    return environment


def _pretty(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
