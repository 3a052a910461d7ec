"""Hints that name the command which helps, against a real service with fake hosts."""

from __future__ import annotations

import pytest

from hostler.agent.drivers.fake import Fault
from tests.cli.cli_in_process import hostler
from tests.cli.control.control_plane_thread import ControlPlaneThread
from tests.wait import wait_until

pytestmark = pytest.mark.usefixtures("project")
SMALL = ("--cpu", "1", "--memory", "1Gi")


def test_who_deletes_a_protected_vm_is_reported_how_to_take_the_protection_off() -> None:
    assert hostler("vm", "create", "db", *SMALL, "--protected", "--wait", "300").code == 0
    result = hostler("vm", "delete", "db", "--yes")
    assert (result.code, result.error) == (4, "VM db is protected from deletion")
    assert "'hostler vm resize db --no-protected'" in result.hint
    assert hostler("vm", "resize", "db", "--no-protected").code == 0
    assert hostler("vm", "delete", "db", "--yes", "--wait", "300").code == 0


def test_who_changes_a_vm_that_moves_is_reported_how_to_call_the_move_off(served: ControlPlaneThread) -> None:
    assert served.fleet is not None
    assert hostler("vm", "create", "web", *SMALL, "--wait", "300").code == 0
    drivers = list(served.fleet.drivers.values())
    fault = Fault(verb="await_landing")  # so that it moves as long as we like
    for driver in drivers:
        driver.faults.append(fault)
    try:
        assert hostler("vm", "migrate", "web").code == 0
        wait_until(lambda: bool(hostler("vm", "get", "web", "-o", "json").json["moving_to"]))
        result = hostler("vm", "migrate", "web")
        assert (result.code, result.error) == (4, "VM web is moving to another host")
        assert "'hostler vm migrate web --cancel'" in result.hint
        assert hostler("vm", "migrate", "web", "--cancel", "--wait", "300").code == 0
    finally:
        for driver in drivers:
            driver.faults.remove(fault)


def test_who_names_a_host_that_is_not_there_is_reported_where_hosts_are_listed() -> None:
    result = hostler("vm", "create", "web", *SMALL, "--host", "node-9")
    assert result.code == 2
    assert "there is no host 'node-9'" in result.error
    assert result.hint == "'hostler host list' shows the hosts that there are"
