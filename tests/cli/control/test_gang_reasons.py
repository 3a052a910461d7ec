"""``hostler gang get`` of a gang whose members wait, and of one whose members are stopped."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler
from tests.wait import wait_until

SMALL = ("--cpu", "1", "--memory", "1Gi")


def why() -> str:
    """Return what the command says of why members are not placed."""
    lines = [line for line in hostler("gang", "get", "crew").lines if line.startswith("Why")]
    return lines[0].removeprefix("Why").strip() if lines else ""


@pytest.mark.usefixtures("project")
def test_a_gang_says_why_its_members_wait_and_how_many_are_stopped():
    assert hostler("gang", "create", "crew", "--min-count", "3").code == 0
    for name in ("one", "two"):
        assert hostler("vm", "create", name, *SMALL, "--gang", "crew").code == 0
    assert why() == "2/3 members are there, it waits for the rest"
    assert hostler("vm", "stop", "two", "--wait", "300").code == 0
    assert why() == "1/3 members are there, it waits for the rest; 1 is stopped"
    assert hostler("vm", "get", "one").out.count("1 is stopped") >= 1
    assert hostler("gang", "edit", "crew", "--min-count", "1").code == 0
    wait_until(lambda: why() == "1 is stopped")
