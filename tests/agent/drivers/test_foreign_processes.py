"""Processes of others cannot keep a host from finding its VMs, whatever they call themselves."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from hostler.agent.core import decisions
from hostler.agent.core.reports import taken, unknown
from hostler.agent.driver import ObservedVm
from hostler.agent.drivers.qemu.inventory import describe_stranger
from hostler.agent.drivers.qemu.processes import scan
from hostler.agent.messages import HostSize, Report
from hostler.control.fleet.agents.message_bounds import bound_report

_SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@contextmanager
def process_named(name: bytes, *arguments: bytes) -> Iterator[int]:
    """Run a process that calls itself this; its pid."""
    words = [name, b"-c", os.fsencode(_SLEEP), *arguments]
    process = subprocess.Popen(words, executable=sys.executable, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "arguments",
    [
        (b"-m", b"9" * 5000),
        (b"-smp", b"9" * 5000),
        (b"-name", b"guest=\xff\xfe\n\x1b[31m"),
        (b"-name",),
        (b"-pidfile",),
        (b"-name", b"x" * 100_000, *([b"y" * 100_000] * 15), b"-m", b"1G"),
        (b"", b"", b""),
    ],
    ids=["memory", "processors", "no text", "no name", "no pid file", "huge", "empty"],
)
def test_stranger_with_any_command_line_is_found_and_reported(arguments):
    with process_named(b"qemu-system-evil", *arguments) as pid:
        (seen,) = [one for one in scan() if one.id.pid == pid]
        found = describe_stranger(seen)
        assert found.vm.isprintable()
        state = decisions.observe(decisions.first_state(HostSize(cpu_millis=1, memory_bytes=1), ()), [found])
        assert msgspec.json.encode((unknown(state), taken(state)))


def test_process_of_a_user_that_runs_no_vm_is_not_looked_at():
    """Its command line lies in its own memory, so that reading it can hang."""
    with process_named(b"qemu-system-evil") as pid:
        own = os.getuid()
        assert pid in {one.id.pid for one in scan(lambda uid: uid == own)}
        assert pid not in {one.id.pid for one in scan(lambda uid: uid != own)}


def test_absurd_size_of_a_vm_does_not_keep_a_report_from_being_taken():
    found = ObservedVm(vm="absurd", power="running", is_ours=False, cpu_count=10**30, memory_bytes=10**30)
    state = decisions.observe(decisions.first_state(HostSize(cpu_millis=1, memory_bytes=1), ()), [found])
    message = Report(boot="b", agent="a", epoch=1, sequence=1, taken=taken(state))
    assert bound_report(message).taken == message.taken


async def test_processes_that_come_and_go_do_not_disturb_a_scan():
    ends = asyncio.Event()

    async def come_and_go() -> None:
        while not ends.is_set():
            process = await asyncio.create_subprocess_exec("true")
            await process.wait()

    coming = asyncio.create_task(come_and_go())
    scans: list[int] = []
    while len(scans) < 50:
        scans.append(len(await asyncio.to_thread(scan)))
    ends.set()
    await coming
