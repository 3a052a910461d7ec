"""What commands say of VMs that failed: what is the matter, what to do, and where to look."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from hostler.agent.drivers.fake import Fault
from tests.cli.cli_in_process import hostler

SMALL = ("--cpu", "1", "--memory", "1Gi")


@contextmanager
def failing(served, verb: str):
    """Let all hosts fail for good at something."""
    fault = Fault(kind="permanent", verb=verb)
    for driver in served.fleet.drivers.values():
        driver.faults.append(fault)
    try:
        yield
    finally:
        for driver in served.fleet.drivers.values():
            driver.faults.remove(fault)


def test_a_vm_that_failed_is_explained_as_such_with_what_to_do(served, project):
    with failing(served, "start"):
        result = hostler("vm", "create", "web-0", *SMALL, "--wait", "300")
    assert result.code == 1
    name = f"{project}/web-0"
    assert result.hint == (f"'hostler vm explain {name}' says what to do, 'hostler vm events {name}' what happened")
    told = hostler("vm", "explain", "web-0")
    assert told.code == 0, told.err
    assert told.lines[0].startswith(f"{name} (cpu 1, memory 1Gi) failed on node-")
    assert "already runs" not in told.out
    assert told.lines[1].startswith("What to do: ")
    assert told.lines[1].endswith(f"'hostler vm restart {name}' tries again.")
    again = hostler("vm", "restart", "web-0", "--wait", "300")
    assert again.code == 0, again.err
    assert "already runs on node-" in hostler("vm", "explain", "web-0").lines[0]


def test_failed_move_hints_at_events_not_at_explanation(served, project):
    assert hostler("vm", "create", "web-0", *SMALL, "--wait", "300").code == 0
    with failing(served, "await_landing"):
        result = hostler("vm", "migrate", "web-0", "--wait", "300")
    assert result.code == 1
    assert result.hint.endswith(f"'hostler vm events {project}/web-0' says what happened")
    assert "explain" not in result.hint
    assert "the move is given up" in hostler("vm", "events", "web-0").out


@pytest.mark.usefixtures("project")
def test_labels_of_the_service_are_rejected_in_every_command():
    for words in (
        ("vm", "create", "web-0", *SMALL, "--label", "hostler/driver=qemu"),
        ("host", "label", "node-1", "hostler/can-migrate=yes"),
        ("host", "label", "node-1", "kubernetes.io/hostname=other"),
        ("agent", "--server", "http://127.0.0.1:1", "--driver", "fake", "--label", "hostler/storage.nfs=yes"),
    ):
        result = hostler(*words)
        assert result.code == 2, words
        assert "is a label that only the service gives" in result.error, words
