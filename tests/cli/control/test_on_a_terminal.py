"""What a user sees and is asked, on a real terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys

import pytest

from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import MAIN
from tests.wait import GIVE_UP_S

pytestmark = pytest.mark.usefixtures("project")


def at_terminal(*words: str, answers: tuple[tuple[str, str], ...] = ()) -> tuple[int, str]:
    """Run a command on a terminal of its own; each answer is typed when its question has appeared."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], stdin=slave, stdout=slave, stderr=slave, env=os.environ, close_fds=True
    )
    os.close(slave)
    seen, left = "", list(answers)
    try:
        while select.select([master], [], [], GIVE_UP_S)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:  # how Linux tells that nobody has the other end any more
                break
            seen += piece.decode(errors="replace")
            if left and left[0][0] in seen:
                os.write(master, f"{left.pop(0)[1]}\n".encode())
        return process.wait(GIVE_UP_S), seen
    finally:
        os.close(master)
        if process.poll() is None:
            process.kill()
            process.wait()


def test_what_goes_on_is_shown_in_one_line_that_goes_away(project):
    code, seen = at_terminal("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait")
    assert code == 0
    assert "\r\x1b[Kweb-0: " in seen
    assert seen.rstrip().rpartition("\x1b[K")[2].startswith(f"{project}/web-0 running on node-")


def test_a_deletion_is_asked_about_and_no_is_no(project):
    hostler("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi")
    question = f"Delete 1 VM ({project}/web-0) with all disks?"
    code, _ = at_terminal("vm", "delete", "web-0", answers=((question, "n"),))
    assert code == 130
    assert hostler("vm", "get", "web-0", "-o", "json").json["power"] == "running"
    code, _ = at_terminal("vm", "delete", "web-0", answers=((question, "y"),))
    assert code == 0
    assert hostler("vm", "list", "--power", "running").out == ""


def test_a_name_is_written_out_before_what_cannot_be_taken_back():
    code, seen = at_terminal("host", "delete", "node-3", answers=(("Type the name of the host to continue", "node-2"),))
    assert code == 2
    assert "error: " in seen
    assert hostler("host", "get", "node-3").code == 0


def test_reservation_of_all_room_asks_and_no_is_no(project):
    question = f"No host would have cpu left for others than project {project}. Reserve it?"
    words = ("reservation", "create", "night", "--amounts", "cpu=8")
    code, _ = at_terminal(*words, answers=((question, "n"),))
    assert code == 130
    assert hostler("reservation", "get", "night").code == 2
    try:
        code, seen = at_terminal(*words, answers=((question, "y"),))
        assert (code, f"reservation {project}/night: cpu 8 on each host" in seen) == (0, True), seen
    finally:
        hostler("reservation", "delete", "night", "--yes")
