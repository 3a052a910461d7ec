"""``hostler vm migrate --cancel``, against a real service with fake hosts."""

from __future__ import annotations

import pytest

from hostler.agent.drivers.fake import Fault
from tests.cli.cli_in_process import hostler
from tests.wait import wait_until

pytestmark = pytest.mark.usefixtures("project")


def test_a_move_whose_target_never_gets_ready_is_called_off(served):
    made = hostler("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait", "300", "-o", "json").json["vm"]
    drivers = [driver for name, driver in served.fleet.drivers.items() if name != made["host"]]
    fault = Fault(verb="await_landing")
    for driver in drivers:
        driver.faults.append(fault)
    try:
        assert hostler("vm", "migrate", "web-0").code == 0
        wait_until(lambda: hostler("vm", "get", "web-0", "-o", "json").json["state"] == "migrating")
        result = hostler("vm", "migrate", "web-0", "--cancel", "--wait", "300")
        assert result.code == 0, result.err
        assert result.out.endswith(f"cancel-migration done; it is running on {made['host']}\n")
    finally:
        for driver in drivers:
            driver.faults.remove(fault)
    late = hostler("vm", "migrate", "web-0", "--cancel")
    assert late.code == 4
    assert "does not move" in late.err


def test_a_move_is_called_off_wherever_it_goes():
    assert hostler("vm", "migrate", "web-0", "--cancel", "--to", "node-1").code == 2
