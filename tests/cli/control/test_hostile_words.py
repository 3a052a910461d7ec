"""Whatever a server says, or a host through it: it moves no cursor of who reads it, and forges no line of ours."""

from __future__ import annotations

import json

import msgspec
import pytest

from hostler.cli.control.events import write_event
from hostler.control.schemas import Event
from tests.cli.cli_in_process import hostler
from tests.cli.control.hostile_server import POISON, control_character_proxy

CREATE = ("--cpu", "100m", "--memory", "64Mi")
SHOWING = [
    ("vm", "list"), ("vm", "list", "-o", "wide"), ("vm", "get", "web-0"), ("vm", "explain", "web-0"),
    ("vm", "events", "web-0"), ("vm", "create", "web-1", *CREATE, "--wait"), ("vm", "plan", *CREATE),
    ("vm", "migrate", "web-0", "--wait"), ("vm", "stop", "web-0", "--wait"), ("vm", "restart", "web-0"),
    ("vm", "delete", "web-0"), ("vm", "delete", "web-0", "--yes"),
    ("host", "list"), ("host", "get", "node-1"), ("host", "events", "node-1"), ("host", "cordon", "node-1"),
    ("host", "delete", "node-1"), ("events",), ("operation", "list"), ("project", "list"), ("quota", "list"),
    ("reservation", "list"), ("gang", "list"), ("key", "list"), ("key", "whoami"), ("token", "list"),
]  # fmt: skip


def assert_harmless(text: str) -> None:
    """No letter that a terminal obeys, and no line that the server began."""
    assert all(letter.isprintable() or letter == "\n" for letter in text), ascii(text)
    assert not any(line.startswith("hint: x") for line in text.splitlines()), ascii(text)


@pytest.mark.parametrize("is_refusing", [False, True], ids=["told", "refused"])
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_no_command_writes_what_a_terminal_would_obey(form, is_refusing, served, project, monkeypatch):
    hostler("vm", "create", "web-0", *CREATE, "--wait")
    said = []
    with control_character_proxy(served.address, is_refusing=is_refusing) as address:
        monkeypatch.setenv("HOSTLER_SERVER", address)
        for words in SHOWING:
            output = () if form == "table" or "-o" in words else ("-o", form)
            result = hostler(*words, *output)
            assert result.code != 70, (words, result.err)
            assert_harmless(result.out + result.err)
            said.append("pwn" in result.out + result.err)
    monkeypatch.setenv("HOSTLER_SERVER", served.address)
    hostler("host", "uncordon", "node-1")
    assert said.count(True) > len(SHOWING) // 2, "hardly anything of the poison came through: what is tested here?"


@pytest.mark.parametrize("form", ["table", "json"])
def test_events_that_go_on_write_nothing_that_a_terminal_would_obey(form, capsys):
    event = Event(
        seq=1, at="now", kind="vm.placed", actor="x", project=POISON, subject="", text=POISON, by=POISON
    )  # fmt: skip
    write_event(event, form)
    text = capsys.readouterr().out
    assert len(text.splitlines()) == 1
    assert_harmless(text)
    assert form == "table" or msgspec.convert(json.loads(text), Event) == event
