"""Every key of our files says what it means: editors show it, and the reference is made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hostler.config import json_schema

SCHEMA: dict[str, Any] = json_schema()
DEFINITIONS: dict[str, Any] = SCHEMA["$defs"]
KEYS = {f"{name}.{key}": one for name, entry in DEFINITIONS.items() for key, one in entry["properties"].items()}


@pytest.mark.parametrize("schema", KEYS.values(), ids=KEYS)
def test_a_key_has_a_sentence_of_its_own(schema: Mapping[str, str]):
    text = schema.get("description", "")
    assert text, "no description"
    assert text[0].isupper()
    assert text.endswith(".")


@pytest.mark.parametrize("name", DEFINITIONS)
def test_no_two_keys_of_one_entry_say_the_same(name):
    texts = [one.get("description") for one in DEFINITIONS[name]["properties"].values()]
    said = [text for text in texts if text]
    assert len(set(said)) == len(said)
