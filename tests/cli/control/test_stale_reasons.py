"""A command that waits does not report the problem of an order that its own order has replaced."""

from __future__ import annotations

from tests.cli.cli_in_process import hostler
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server

OLD = {"kind": "permanent", "code": "start_failed", "message": "start failed"}
NEW = {"kind": "transient", "code": "start_failed", "message": "the disk is busy"}
BLOCKED = {"kind": "blocked", "code": "no_image", "message": "web.qcow2 is not there"}


def told(project: str, verb: str, state: str, power: str, before: dict, *later: dict | None) -> list[str]:
    """Change a VM that has a trouble, let a server answer which it has at each look, and return the output."""
    made = hostler("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait", "300", "-o", "json").json
    assert made["vm"]["project"] == project
    vm = {**made["vm"], "state": state, "power": power}
    over = {**made["operation"], "kind": f"vm.{verb}"}
    pending = {**over, "state": "pending"}
    first = {**vm, "trouble": before}
    looks = [ScriptedAnswer(body={**vm, "trouble": trouble}) for trouble in later]
    polls = [ScriptedAnswer(body=pending)] * (len(looks) - 1) + [ScriptedAnswer(body=over)]
    course = [answer for pair in zip(looks, polls, strict=True) for answer in pair]
    listed = ScriptedAnswer(body={"items": [first], "next": ""})
    accepted = ScriptedAnswer(202, {"vm": first, "operation": pending})
    with scripted_server(listed, accepted, *course, ScriptedAnswer(body=vm)) as script:
        result = hostler("vm", verb, "web-0", "--wait", "300", "--server", script.address)
    assert result.code == 0, result.err
    return result.err.splitlines()


def test_what_the_last_try_failed_by_is_not_told_of_the_next_one(project):
    assert told(project, "restart", "starting", "running", OLD, OLD, None) == []


def test_another_trouble_is_reported_and_so_is_the_old_one_when_it_comes_back(project):
    assert told(project, "restart", "starting", "running", OLD, OLD, NEW, OLD) == [
        f"{project}/web-0 is starting: transient: the disk is busy",
        f"{project}/web-0 is starting: permanent: start failed",
    ]


def test_what_kept_a_vm_from_running_is_not_told_of_its_stop(project):
    assert told(project, "stop", "stopping", "stopped", BLOCKED, BLOCKED, BLOCKED) == []


def test_what_a_vm_that_is_to_run_still_waits_for_is_reported(project):
    assert told(project, "restart", "starting", "running", BLOCKED, BLOCKED) == [
        f"{project}/web-0 is starting: blocked: web.qcow2 is not there"
    ]
