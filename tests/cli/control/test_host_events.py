"""``hostler host events``, against a real service with fake hosts."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler

pytestmark = pytest.mark.usefixtures("project")


def test_what_happened_to_a_host_is_shown_and_nothing_of_others() -> None:
    assert hostler("host", "cordon", "node-2").code == 0
    assert hostler("host", "uncordon", "node-2").code == 0
    told = hostler("host", "events", "node-2").out
    assert "no longer cordoned" in told
    assert "host.uncordon  key first administrator  uncordoned node-2" in told
    identity = hostler("host", "get", "node-2", "-o", "json").json["id"]
    items = hostler("host", "events", identity, "-o", "json").json["items"]
    assert {one["subject"] for one in items} == {identity}


def test_events_of_a_host_that_is_not_there_are_refused() -> None:
    result = hostler("host", "events", "node-9")
    assert (result.code, result.error) == (2, "host node-9 does not exist")
