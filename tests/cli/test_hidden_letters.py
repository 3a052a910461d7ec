"""What a screen would not show or would obey is escaped in YAML and JSON, and is read back as it was."""

from __future__ import annotations

import json

import pytest
import yaml

from hostler.cli.output.terminal import print_data

TURNED = "web\u202egpj.exe"
BEYOND = "tag\U000e0041"
VALUES = [TURNED, BEYOND, "del\x7f", "zero\u200bwidth", "end\u2028", {"key\u202e": ["x", TURNED]}, "true\u202e"]


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("value", VALUES, ids=ascii)
def test_hidden_letters_are_escaped_and_come_back(value, form, capsys):
    print_data({"unknown_vms": [value]}, form)
    text = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in text), ascii(text)
    read = yaml.safe_load(text) if form == "yaml" else json.loads(text)
    assert read == {"unknown_vms": [value]}


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("value", ["Köln", "線", "plain", "two\nlines", "1e3", "über\nzwei"])
def test_letters_that_can_be_read_stay_as_they_are(value, form, capsys):
    print_data([value], form)
    text = capsys.readouterr().out
    assert (yaml.safe_load(text) if form == "yaml" else json.loads(text)) == [value]
    assert all(letter in text for letter in value if letter != "\n")
