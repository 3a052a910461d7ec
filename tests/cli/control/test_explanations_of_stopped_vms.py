"""What ``vm explain`` prints of a stopped VM."""

from __future__ import annotations

from tests.cli.cli_in_process import hostler
from tests.wait import wait_until

SMALL = ("--cpu", "1", "--memory", "1Gi")


def test_a_stopped_vm_is_said_to_be_stopped_and_what_follows_to_be_a_guess(project):
    assert hostler("vm", "create", "web-0", *SMALL, "--disk", "1Gi", "--wait", "300").code == 0
    assert hostler("vm", "stop", "web-0", "--wait", "300").code == 0
    wait_until(lambda: "is stopped, and stays on" in hostler("vm", "explain", "web-0").out)
    told = hostler("vm", "explain", "web-0")
    assert told.code == 0, told.err
    text = " ".join(told.out.split())
    assert text.startswith(f"{project}/web-0 (cpu 1, memory 1Gi, storage 1Gi) is stopped, and stays on node-")
    assert ". If it were started now, 1 of 3 hosts would take it; policy " in text
    assert f"What to do: 'hostler vm start {project}/web-0' starts it; until then no host is asked." in text
    assert "not placed" not in text


def test_vm_stopped_while_waiting_is_explained_as_if_started(project):
    assert hostler("vm", "create", "huge-0", "--cpu", "640", "--memory", "1Gi").code == 0
    assert hostler("vm", "stop", "huge-0", "--wait", "300").code == 0
    told = hostler("vm", "explain", f"{project}/huge-0")
    assert told.code == 0, told.err
    text = " ".join(told.out.split())
    assert "is stopped, and on no host. If it were started now, it would fit nowhere: 0 of 3 hosts: " in text
    assert "tried again" not in text
    assert f"What to do: change it, or make room for it, before 'hostler vm start {project}/huge-0'" in text


def test_resize_of_stopped_vm_beyond_any_host_warns_at_once(project):
    assert hostler("vm", "create", "web-0", *SMALL, "--wait", "300").code == 0
    assert hostler("vm", "stop", "web-0", "--wait", "300").code == 0
    told = hostler("vm", "resize", "web-0", "--cpu", "100")
    assert told.code == 0
    assert told.err == (
        f"note: no host would take it if it were started now: 'hostler vm explain {project}/web-0' says why\n"
    )
    assert hostler("vm", "resize", "web-0", "--cpu", "2").err == ""


def test_moved_vm_is_explained_as_if_placed_now(project):
    assert hostler("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait", "300").code == 0
    here = hostler("vm", "get", "web-0", "-o", "json").json["host"]
    there = next(name for name in ("node-1", "node-2", "node-3") if name != here)
    assert hostler("vm", "migrate", "web-0", "--to", there, "--wait", "300").code == 0
    told = hostler("vm", "explain", "web-0").out
    assert f"already runs on {there}. 3 of 3 hosts would take it" in told
    assert "not its host" not in told
