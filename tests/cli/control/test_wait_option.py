"""What a waiting command prints: the reason while it lasts, and what continues when it stops waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

from hostler.agent.drivers.fake import Fault
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import MAIN
from tests.cli.control.test_on_a_terminal import at_terminal
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server
from tests.wait import wait_until

HUGE = ("--cpu", "64", "--memory", "1Gi")
NO_ROOM = "0 of 3 hosts: 3 insufficient cpu"
TROUBLE = {"kind": "blocked", "code": "no_image", "message": "web.qcow2 is not there"}


def refused(name: str) -> str:
    """Create a VM that fits nowhere, wait until that is known, and return the operation."""
    made = hostler("vm", "create", name, *HUGE, "-o", "json").json
    wait_until(lambda: bool(hostler("vm", "get", name, "-o", "json").json["why"]))
    return made["operation"]["id"]


def changed(project: str) -> dict:
    """A VM that runs, and the operation that made it, as a server answers them."""
    result = hostler("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait", "300", "-o", "json")
    assert result.code == 0, result.err
    assert result.json["vm"]["project"] == project
    return result.json


def test_reason_is_reported_while_the_command_waits(project):
    identity = refused("huge")
    result = hostler("operation", "wait", identity, "--seconds", "0")
    assert result.code == 3
    assert result.err.splitlines()[0] == f"{project}/huge is pending: {NO_ROOM}"
    assert result.error == f"vm.create of {project}/huge is still in progress (it is pending: {NO_ROOM})"
    assert result.hint == f"it continues; 'hostler operation wait {identity}' waits for it"


def test_on_a_terminal_the_reason_stays_above_the_line_that_goes_away(project):
    _, seen = at_terminal("operation", "wait", refused("huge"), "--seconds", "0")
    assert f"{project}/huge is pending: {NO_ROOM}\r\n\r\x1b[Khuge: pending\r\x1b[K" in seen


def test_a_reason_is_reported_again_only_when_it_is_another_one(project):
    made = changed(project)
    vm, operation = made["vm"], made["operation"]
    pending, over = ScriptedAnswer(body={**operation, "state": "pending"}), ScriptedAnswer(body=operation)
    troubled = {**vm, "state": "starting", "trouble": TROUBLE}
    one, two = ScriptedAnswer(body={**troubled, "why": "no room"}), ScriptedAnswer(body=troubled)
    asked = ScriptedAnswer(202, {"vm": vm, "operation": {**operation, "state": "pending"}})
    listed = ScriptedAnswer(body={"items": [vm], "next": ""})
    with scripted_server(
        listed, asked, one, pending, one, pending, two, pending, two, over, ScriptedAnswer(body=vm)
    ) as script:
        result = hostler("vm", "restart", "web-0", "--wait", "300", "--server", script.address)
    assert result.code == 0, result.err
    assert result.err.splitlines() == [
        f"{project}/web-0 is starting: no room",
        f"{project}/web-0 is starting: blocked: web.qcow2 is not there",
    ]


def test_wait_that_times_out_ends_with_last_reason_and_hint(project):
    made = changed(project)
    pending = {**made["operation"], "state": "pending", "kind": "vm.restart"}
    troubled = {**made["vm"], "state": "starting", "trouble": TROUBLE}
    listed, asked = (
        ScriptedAnswer(body={"items": [troubled], "next": ""}),
        ScriptedAnswer(202, {"vm": troubled, "operation": pending}),
    )
    look = ScriptedAnswer(body=troubled)
    with scripted_server(listed, asked, look, ScriptedAnswer(body=pending), look) as script:
        result = hostler("vm", "restart", "web-0", "--wait", "0", "--server", script.address)
    assert result.code == 3
    assert result.error == (
        f"vm.restart of {project}/web-0 is still in progress (it is starting: blocked: web.qcow2 is not there)"
    )
    assert result.hint == f"it continues; 'hostler operation wait {pending['id']}' waits for it"


def _interrupt(process: subprocess.Popen[str]) -> int:
    """Press Ctrl-C, and again if that had no effect: Python loses one that comes while it finalizes an object."""

    def has_ended() -> bool:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        return process.poll() is not None

    wait_until(has_ended, "the end of an interrupted command")
    return process.returncode


@contextmanager
def interrupted(*words: str, when: str):
    """Run a command, interrupt it when a line with these words was written, and yield what it says to that."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ,
    )  # fmt: skip
    try:
        assert any(when in line for line in process.stdout), "it was never said"
        assert _interrupt(process) == 130
        lines = process.stdout.read().splitlines()
        [said] = [line for line in lines if line.startswith("interrupted: ")]
        yield said
    finally:
        process.stdout.close()
        if process.poll() is None:
            process.kill()
            process.wait()


def test_interrupted_wait_says_what_continues(project):
    with interrupted("vm", "create", "huge", *HUGE, "--wait", "300", when=NO_ROOM) as said:
        [operation] = hostler("operation", "list", "-o", "json").json["items"]
    identity = operation["id"]
    look, again = (
        f"'hostler vm get {project}/huge' shows the progress",
        f"'hostler operation wait {identity}' waits for it",
    )
    assert said == f"interrupted: vm.create of {project}/huge continues; {look}, {again}"
    assert hostler("operation", "get", identity, "-o", "json").json["state"] == "pending"


def test_of_many_the_first_is_named_and_the_others_are_counted(project):
    words = ("vm", "create", "huge", "--count", "3", *HUGE, "--wait", "300")
    with interrupted(*words, when=NO_ROOM) as said:
        look = f"'hostler vm get {project}/huge-0' shows the progress, "
        assert f"vm.create of {project}/huge-0 continues; {look}" in said
    assert "; 2 more continue too: 'hostler operation list -A --state pending' shows all" in said


def test_waiting_for_an_operation_can_be_interrupted_too(project):
    identity = refused("huge")
    with interrupted("operation", "wait", identity, when=NO_ROOM) as said:
        look, again = (
            f"'hostler vm get {project}/huge' shows the progress",
            f"'hostler operation wait {identity}' waits",
        )
        assert said == f"interrupted: vm.create of {project}/huge continues; {look}, {again} for it"


def test_a_drain_that_is_interrupted_goes_on_and_says_how_to_end_it(served, project):
    others = ("node-2", "node-3")
    assert hostler("host", "cordon", *others).code == 0
    for name, disk in (("db", ("--disk", "1Gi")), ("web-0", ())):
        result = hostler("vm", "create", name, "--cpu", "1", "--memory", "1Gi", *disk, "--wait", "300")
        assert result.code == 0, result.err
    fault = Fault(verb="await_landing")  # so that one moves as long as we like, while the other cannot leave
    for name in others:
        served.fleet.drivers[name].faults.append(fault)
    try:
        assert hostler("host", "uncordon", *others).code == 0
        with interrupted("host", "drain", "node-1", "--wait", "300", when=f"{project}/db cannot leave node-1") as said:
            look, end = "'hostler host get node-1' shows the progress", "'hostler host undrain node-1' ends it"
            assert said == f"interrupted: the draining of node-1 continues; {look}, {end}"
    finally:
        for name in others:
            served.fleet.drivers[name].faults.remove(fault)
        assert hostler("host", "undrain", "node-1").code == 0
        assert hostler("host", "uncordon", *others).code == 0
