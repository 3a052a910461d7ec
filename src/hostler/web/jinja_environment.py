"""The Jinja environment of all templates. Everything is escaped; a name that was not passed is an error, not a gap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hostler.control.schemas import texts as schema_texts
from hostler.model import explanation_texts
from hostler.model.vocabulary import VM_WORDS, plural
from hostler.web import texts

__all__ = ["make_environment", "tone_of", "with_query"]

_FOLDER = Path(__file__).parent / "templates"
_TONES = {
    "running": "good", "ready": "good", "done": "good",
    "pending": "warn", "creating": "warn", "starting": "warn", "stopping": "warn", "migrating": "warn",
    "resizing": "warn", "deleting": "warn", "cordoned": "warn", "draining": "warn", "joined": "warn",
    "failed": "bad", "unknown": "bad", "lost": "bad", "silent": "bad", "offline": "bad", "fenced": "bad",
    "not registered": "bad",
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
    environment.globals |= {
        "asset": asset,
        "tone_of": tone_of,
        "link": with_query,
        "no_vm_waits": _whole(schema_texts.NO_VM_WAITS),
    }
    environment.globals |= {
        "no_hosts": _whole(schema_texts.NO_HOSTS),
        "no_cure": explanation_texts.NO_CURE,
        "tried_again": explanation_texts.TRIED_AGAIN,
    }
    environment.filters |= {
        "amount": texts.spec_amount_text,
        "bytes": texts.bytes_text,
        "cpu": texts.cpu_text,
        "stamp": texts.time_text,
        "plural": plural,
        "condition": schema_texts.condition_text,
        "cure": explanation_texts.cure_text,
        "eviction": lambda advice: explanation_texts.eviction_texts(advice, VM_WORDS),
        "gang": explanation_texts.gang_texts,
        "keeper": schema_texts.keeper_text,
        "inventory": schema_texts.inventory_text,
        "quota": lambda quota: explanation_texts.quota_text(quota, VM_WORDS),
        "sentence": _as_sentence,
        "teardown": schema_texts.teardown_text,
        "watchdog": schema_texts.watchdog_text,
        "part": lambda text: quote(str(text), safe=""),
        "pretty": _pretty,
        "ago": texts.ago_text,
        "disks": texts.disks_text,
        "size": texts.size_text,
        "conditions": schema_texts.host_conditions,
    }
    return environment


def _as_sentence(text: str) -> str:
    """Return a text that begins like a sentence."""
    return text[:1].upper() + text[1:]


def _whole(text: str) -> str:
    """Return a text as a whole sentence."""
    return f"{_as_sentence(text)}."


def _pretty(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
