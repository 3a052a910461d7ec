"""Processes outlive their parent, are found again, and are ended; foreign processes are left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from hostler.kube.local import processes
from hostler.kube.local.locks import hold_lock
from tests.wait import wait_until

SLEEP = "/bin/sleep"
IGNORES_TERM = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]


@pytest.fixture
def start(tmp_path):
    """Give a function that starts a program, with its note; all of them end with the test."""
    notes: list[Path] = []

    def begin(command, *, dies_with_us=False):
        path = tmp_path / f"{len(notes)}.json"
        with hold_lock(tmp_path / "lock", patience_s=5, busy="", report=print) as lock:
            processes.start(
                command, note=path, log=tmp_path / "log", lock=lock, environment={}, dies_with_us=dies_with_us
            )
        notes.append(path)
        return path

    yield begin
    for path in notes:
        note = processes.find(path)
        if note is not None:
            processes.end(note, patience_s=0)


def test_a_process_is_found_by_its_note_until_it_is_ended(start):
    path = start([SLEEP, "1000"])
    note = processes.find(path)
    assert note is not None
    assert note.command == (SLEEP, "1000")
    assert os.getsid(note.pid) == note.pid
    processes.end(note, patience_s=5)
    assert processes.find(path) is None
    assert not Path(f"/proc/{note.pid}").exists()


def test_what_a_process_writes_is_in_its_log_and_the_log_before_is_kept(start, tmp_path):
    start(["/bin/echo", "first"])
    wait_until(lambda: (tmp_path / "log").read_text() == "first\n")
    start(["/bin/echo", "second"])
    wait_until(lambda: (tmp_path / "log").read_text() == "second\n")
    assert (tmp_path / "log.previous.log").read_text() == "first\n"


def test_the_lock_is_free_once_the_note_is_written(start, tmp_path):
    start([SLEEP, "1000"])
    with hold_lock(tmp_path / "lock", patience_s=0, busy="", report=print):
        pass


def test_one_that_does_not_listen_is_made_to_end(start, tmp_path):
    path = start(IGNORES_TERM)
    wait_until(lambda: (tmp_path / "log").read_text() == "ready\n")
    note = processes.find(path)
    processes.end(note, patience_s=0.2)
    assert not processes.is_alive(note)


@pytest.mark.parametrize("lie", ["start_ticks", "boot"])
def test_a_stranger_who_has_the_pid_now_is_never_touched(start, lie):
    note = processes.find(start([SLEEP, "1000"]))
    assert note is not None
    before = {"start_ticks": note.start_ticks - 1, "boot": "another"}[lie]
    earlier = msgspec.structs.replace(note, **{lie: before})
    assert not processes.is_alive(earlier)
    processes.end(earlier, patience_s=0)
    assert processes.is_alive(note)


def test_a_zombie_is_not_alive(start):
    note = processes.find(start([SLEEP, "1000"]))
    os.kill(note.pid, signal.SIGKILL)
    wait_until(lambda: not processes.is_alive(note))
    assert Path(f"/proc/{note.pid}").exists()  # it is ours to reap
    os.waitpid(note.pid, 0)


def test_a_note_that_is_garbage_is_no_process(tmp_path):
    (tmp_path / "note").write_text("{")
    assert processes.find(tmp_path / "note") is None
    assert processes.find(tmp_path / "none") is None


def test_the_start_is_given_in_wall_time(start):
    note = processes.find(start([SLEEP, "1000"]))
    assert abs(processes.started_at_s(note) - time.time()) < 60


STARTER = """
import sys
from pathlib import Path
from hostler.kube.local import processes
from hostler.kube.local.locks import hold_lock
folder = Path(sys.argv[1])
with hold_lock(folder / "lock", patience_s=5, busy="", report=print) as lock:
    processes.start(["/bin/sleep", "1000"], note=folder / "note", log=folder / "log", lock=lock, environment={},
                    dies_with_us=sys.argv[2] == "die")
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("bond", ["die", "live"])
def test_process_dies_with_its_parent_only_if_asked_to(tmp_path, bond):
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path), bond], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout.readline() == b"started\n"
        note = processes.find(tmp_path / "note")
        assert note is not None
        starter.kill()
        starter.wait()
    if bond == "die":
        wait_until(lambda: not processes.is_alive(note))
    else:
        time.sleep(0.2)
        assert processes.is_alive(note)
        processes.end(note, patience_s=5)
