"""Sizes in tables can be read at a glance; as data they are exact."""

from __future__ import annotations

import pytest

from hostler.cli.control.output import amount_text, amounts_text
from tests.cli.cli_in_process import hostler
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server

ODD_BYTES = 24_684_100 * 2**10


@pytest.mark.usefixtures("project")
def test_a_host_of_an_odd_size_is_rounded_in_tables_and_exact_as_data():
    found = hostler("host", "get", "node-1", "-o", "json").json
    odd = {**found, "may_give": {**found["may_give"], "memory_bytes": ODD_BYTES}}
    one, many = ScriptedAnswer(body=odd), ScriptedAnswer(body={"items": [odd], "next": ""})
    with scripted_server(many, one, one) as script:
        listed, shown, data = (
            hostler("host", *words, "--server", script.address)
            for words in (("list",), ("get", "node-1"), ("get", "node-1", "-o", "json"))
        )
    assert listed.row("node-1")[3].endswith("/23.5Gi")
    assert "of 23.5Gi used" in shown.out
    assert data.json["may_give"]["memory_bytes"] == ODD_BYTES


@pytest.mark.parametrize(
    ("given", "text"),
    [("4Gi", "4Gi"), ("1.5Gi", "1.5Gi"), ("1024Gi", "1024Gi"), (f"{ODD_BYTES}", "23.5Gi"), ("24684100Ki", "23.5Gi")],
)
def test_an_amount_stays_as_it_was_given_as_long_as_it_is_short(given, text):
    assert amount_text("memory", given) == text


def test_amounts_that_are_no_bytes_are_not_rounded():
    assert amounts_text({"cpu": "123456m", "guests": 1234567}) == "cpu 123456m, guests 1234567"
    assert amount_text("memory", "what a stranger says") == "what a stranger says"
