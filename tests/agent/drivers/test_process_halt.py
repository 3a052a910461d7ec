"""Processes are ended together, at a time that was set before, and one that is left is never claimed to have ended."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from hostler.agent.boot import boot_id
from hostler.agent.drivers.machine.process_halt import KernelProcesses, ProcessHalt
from hostler.agent.drivers.machine.processes import ProcessId, read_state

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
WILLING = "import time; print('up', flush=True); time.sleep(600)"


@contextmanager
def process_of(program: str) -> Iterator[tuple[ProcessId, subprocess.Popen]]:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        state = read_state(process.pid)
        assert state is not None
        yield ProcessId(process.pid, state[1], boot_id()), process
    finally:
        process.kill()
        process.communicate()


def test_all_processes_end_together_the_stubborn_by_sigkill():
    with ExitStack() as stack:
        started = [stack.enter_context(process_of(STUBBORN if number % 2 else WILLING)) for number in range(6)]
        processes = {f"vm-{number}": process for number, (process, _) in enumerate(started)}
        halt = ProcessHalt()
        assert halt.rehearse(processes) == {}
        assert all(one.poll() is None for _, one in started), "a rehearsal leaves them running"
        assert asyncio.run(halt.end_all(processes, polite_s=1.0, reap_s=60.0)) == {}
        ended = [one.wait(60) for _, one in started]
        assert ended == [-signal.SIGTERM, -signal.SIGKILL] * 3


def test_without_time_left_processes_get_sigkill_and_nothing_before():
    with process_of(WILLING) as (process, popen):
        assert asyncio.run(ProcessHalt().end_all({"a": process}, polite_s=0.0, reap_s=60.0)) == {}
        assert popen.wait(60) == -signal.SIGKILL


def test_process_of_the_same_pid_that_started_later_is_left_alone():
    with process_of(WILLING) as (process, popen):
        other = ProcessId(process.pid, process.started - 1, process.boot)
        assert asyncio.run(ProcessHalt().end_all({"a": other}, polite_s=0.0, reap_s=60.0)) == {}
        assert popen.poll() is None


class Played:
    """A process as the test plays it: what signals it got, and whether SIGKILL ends it."""

    def __init__(self, *, survives=False, letter="S", error=None):
        self.survives, self.letter, self.error = survives, letter, error
        self.signals: list[int] = []
        self.has_ended = False

    def send(self, number):
        if self.error is not None:
            raise self.error
        self.signals.append(number)
        self.has_ended = self.has_ended or (number == signal.SIGKILL and not self.survives)

    async def wait(self, timeout_s):
        await asyncio.sleep(0)
        return self.has_ended

    def state(self):
        return "" if self.has_ended else self.letter

    def close(self):
        pass


class PlayedTable:
    """The kernel's processes as the test plays them."""

    def __init__(self, **played):
        self.played = played
        self.processes = {vm: ProcessId(number + 1, 1, "b") for number, vm in enumerate(played)}

    def open(self, process):
        handle = list(self.played.values())[process.pid - 1]
        return None if handle.has_ended else handle


def test_process_that_survives_sigkill_is_reported_until_it_is_gone():
    """In the state D a process hears no signal: it counts as running, at this look and at all later ones."""
    table = PlayedTable(fine=Played(), stuck=Played(survives=True, letter="D"))
    halt = ProcessHalt(table)

    def end():
        return asyncio.run(halt.end_all(table.processes, polite_s=1.0, reap_s=1.0))

    assert halt.rehearse(table.processes) == {}
    assert list(end()) == ["stuck"]
    assert "survives SIGKILL (state D)" in end()["stuck"]
    assert table.played["stuck"].signals.count(signal.SIGKILL) == 2, "it goes on trying"
    table.played["stuck"].letter = "S"  # the agent is back, nothing is due: it is still not claimed to be stoppable
    assert "has survived SIGKILL" in halt.rehearse(table.processes)["stuck"]
    table.played["stuck"].has_ended = True
    assert halt.rehearse(table.processes) == {}


def test_process_that_hangs_in_the_kernel_is_reported_before_silence():
    table = PlayedTable(stuck=Played(letter="D"))
    halt = ProcessHalt(table)
    looks = [halt.rehearse(table.processes) for _ in range(4)]
    assert looks[0] == {}, "a process that reads a disk is in that state for a moment"
    assert "might survive SIGKILL" in looks[-1]["stuck"]
    table.played["stuck"].letter = "S"
    assert halt.rehearse(table.processes) == {}


@pytest.mark.parametrize("error", [PermissionError(1, "Operation not permitted"), OSError(22, "Invalid argument")])
def test_process_that_may_not_be_signaled_is_reported_before_silence(error):
    table = PlayedTable(other=Played(error=error), fine=Played())
    assert list(ProcessHalt(table).rehearse(table.processes)) == ["other"]
    failed = asyncio.run(ProcessHalt(table).end_all(table.processes, polite_s=0.0, reap_s=0.0))
    assert list(failed) == ["other"]


def test_process_table_that_is_out_of_descriptors_ends_the_others():
    class Scarce(PlayedTable):
        def open(self, process):
            if process.pid == 1:
                raise OSError(24, "Too many open files")
            return super().open(process)

    table = Scarce(first=Played(), second=Played())
    failed = asyncio.run(ProcessHalt(table).end_all(table.processes, polite_s=0.0, reap_s=0.0))
    assert list(failed) == ["first"]
    assert table.played["second"].has_ended


def test_process_that_ended_long_ago_cannot_be_opened():
    with process_of(WILLING) as (process, popen):
        popen.kill()
        popen.wait()
        assert KernelProcesses().open(process) is None
