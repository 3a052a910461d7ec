"""``hostler host drain --wait``, against a real service with fake hosts."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial

import pytest

from hostler.agent.drivers.fake import Fault
from tests.cli.cli_in_process import hostler
from tests.wait import wait_until

pytestmark = pytest.mark.usefixtures("project")
SMALL = ("--cpu", "1", "--memory", "1Gi")


def created(name: str, *words: str) -> dict:
    result = hostler("vm", "create", name, *SMALL, *words, "--wait", "300", "-o", "json")
    assert result.code == 0, result.err
    return result.json["vm"]


@contextmanager
def undrained(host: str):
    """Let a host take VMs again at the end."""
    try:
        yield
    finally:
        assert hostler("host", "undrain", host).code == 0


def test_a_drain_is_followed_vm_by_vm_until_the_host_is_empty(project):
    host = created("web-0")["host"]
    with undrained(host):
        result = hostler("host", "drain", host, "--wait")
        assert (result.code, result.err) == (0, "")
        assert result.lines[0].startswith(f"{project}/web-0 left {host}: it is ")
        assert result.lines[-1] == f"{host}: ready, draining, empty"
        again = hostler("host", "drain", host, "--wait", "-o", "json")
        assert (again.json["name"], again.json["vms"]) == (host, 0)


def test_a_vm_that_leaves_while_nobody_looks_at_its_host_is_reported_too(served, project):
    slow, quick = created("slow"), created("quick")
    assert slow["host"] != quick["host"]
    fault = Fault(verb="await_landing", vm=slow["id"])
    drivers = list(served.fleet.drivers.values())
    for driver in drivers:
        driver.faults.append(fault)

    def let_the_slow_one_go():
        with served.client() as client:
            wait_until(lambda: client.hosts.get(quick["host"]).vms == 0)
        for driver in drivers:
            driver.faults.remove(fault)

    letting = threading.Thread(target=let_the_slow_one_go)
    with undrained(slow["host"]), undrained(quick["host"]):
        letting.start()
        result = hostler("host", "drain", slow["host"], quick["host"], "--wait", "300")
        letting.join()
        assert result.code == 0, result.err
        for vm in (slow, quick):
            assert f"\n{project}/{vm['name']} left {vm['host']}: it is " in f"\n{result.out}"


def test_a_vm_that_cannot_leave_is_named_and_ends_the_wait(project):
    host = created("db", "--disk", "1Gi")["host"]
    with undrained(host):
        result = hostler("host", "drain", host, "--wait", "300")
        assert result.code == 4
        assert f"{project}/db cannot leave {host}: it has a disk on this host" in result.out
        assert result.error.startswith(f"cannot leave {host}: {project}/db (it has a disk")
        assert f"hostler host undrain {host}" in result.hint


def test_drain_continues_after_the_command_stops_waiting(served, project):
    host = created("web-0")["host"]
    drivers = [driver for name, driver in served.fleet.drivers.items() if name != host]
    fault = Fault(verb="await_landing")  # so that it moves as long as we like
    for driver in drivers:
        driver.faults.append(fault)
    with undrained(host):
        try:
            result = hostler("host", "drain", host, "--wait", "1")
        finally:
            for driver in drivers:
                driver.faults.remove(fault)
        assert result.code == 3
        assert f"1 VM still on {host}: {project}/web-0 is " in result.error
        assert hostler("host", "drain", host, "--wait", "300").code == 0


def is_refused(name: str) -> bool:
    return bool(hostler("vm", "get", name, "-o", "json").json["why"])


def test_moving_a_vm_that_waits_for_a_place_is_a_conflict(project):
    for disk in ((), ("--disk", "1Gi")):
        name = f"huge-{len(disk)}"
        assert hostler("vm", "create", name, "--cpu", "64", "--memory", "1Gi", *disk).code == 0
        wait_until(partial(is_refused, name))
        for words in ((), ("--to", "node-1"), ("--to", "nowhere")):
            result = hostler("vm", "migrate", name, *words)
            assert (result.code, result.error) == (4, f"VM {name} waits for a place")
