"""VMs that their hosts cannot make, and try on: the list says why, and metrics count them."""

from __future__ import annotations

from contextlib import contextmanager

import httpx

from hostler.agent.drivers.fake import Fault
from tests.cli.cli_in_process import hostler
from tests.wait import wait_until

SMALL = ("--cpu", "1", "--memory", "1Gi")


@contextmanager
def blocking(served):
    """Let all hosts lack what it takes to start a VM."""
    fault = Fault(kind="blocked", verb="start")
    for driver in served.fleet.drivers.values():
        driver.faults.append(fault)
    try:
        yield
    finally:
        for driver in served.fleet.drivers.values():
            driver.faults.remove(fault)


def hindered(served) -> dict[str, float]:
    """Return what metrics say of VMs that something is in the way of."""
    answer = httpx.get(f"{served.address}/metrics", headers={"Authorization": f"Bearer {served.key}"})
    lines = (line for line in answer.text.splitlines() if line.startswith("hostler_control_vms_hindered{"))
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


def test_blocked_vm_is_listed_with_reason_and_counted_until_it_runs(served, project):
    assert "WHY" not in hostler("vm", "list").out
    assert hindered(served) == {"blocked": 0, "transient": 0}
    with blocking(served):
        assert hostler("vm", "create", "web-0", *SMALL).code == 0
        wait_until(lambda: "blocked: " in hostler("vm", "list").out)
        heading, line = hostler("vm", "list").lines
        assert heading.split()[-1] == "WHY"
        assert "blocked: " in line
        assert hindered(served) == {"blocked": 1, "transient": 0}
    assert hostler("vm", "restart", "web-0", "--wait", "300").code == 0
    assert "WHY" not in hostler("vm", "list").out
    assert hindered(served) == {"blocked": 0, "transient": 0}


def test_why_a_vm_waits_stands_in_the_narrow_list_too(served, project):
    assert hostler("vm", "create", "giant", "--cpu", "100", "--memory", "1Gi").code == 0
    with served.client() as client:
        wait_until(lambda: bool(client.vms.find("giant", project).why))
        assert client.vms.find("giant", project).why in hostler("vm", "list").out
