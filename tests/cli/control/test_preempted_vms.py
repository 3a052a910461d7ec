"""What ``vm explain`` prints of a VM that was stopped or moved for another."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler
from tests.wait import wait_until

LARGE = ("--cpu", "6", "--memory", "1Gi", "--host", "node-1")


@pytest.mark.usefixtures("project")
def test_a_vm_that_waits_since_it_made_way_says_for_whom():
    assert hostler("vm", "create", "low", *LARGE, "--wait", "300").code == 0
    assert hostler("vm", "create", "high", *LARGE, "--priority", "10", "--wait", "300").code == 0
    wait_until(lambda: hostler("vm", "get", "low", "-o", "json").json["state"] == "pending")
    told = " ".join(hostler("vm", "explain", "low").out.split())
    assert "It was stopped because it makes room for high, a VM of higher priority." in told


@pytest.mark.usefixtures("project")
def test_vm_that_was_moved_says_for_whom_it_made_room():
    assert hostler("vm", "create", "low", "--cpu", "6", "--memory", "1Gi", "--wait", "300").code == 0
    home = hostler("vm", "get", "low", "-o", "json").json["host"]
    high = ("--cpu", "6", "--memory", "1Gi", "--host", home, "--priority", "10")
    would = hostler("vm", "candidates", *high).out
    assert "/low to node-" in " ".join(would.split())
    assert hostler("vm", "create", "high", *high, "--wait", "300").code == 0
    told = " ".join(hostler("vm", "explain", "low").out.split())
    assert "It was moved there to make room for high, a VM of higher priority." in told
    assert "moved to" in hostler("vm", "events", "low").out
