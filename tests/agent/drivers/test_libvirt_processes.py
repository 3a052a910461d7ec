"""Processes of libvirt's domains: real ones, noted in pid files as libvirt notes them, ended for the watchdog."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import ExitStack, contextmanager

import pytest

from hostler.agent.drivers.libvirt.domain_processes import DomainProcesses, pid_files_of
from tests.wait import wait_for_exit

DEAF = "trap '' TERM; echo ready; while :; do sleep 1; done"
POLITE = "echo ready; while :; do sleep 1; done"


@contextmanager
def guest(domain, script=POLITE):
    """Run a process whose command line names a domain, as libvirt's QEMU has it."""
    command = ["sh", "-c", script, "qemu", "-name", f"guest={domain},debug-threads=on"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def note(folder, domain, content):
    (folder / f"{domain}.pid").write_text(f"{content}\n")


def names_of(count):
    return {f"vm-{number}": f"hostler-{number}" for number in range(count)}


def test_domains_end_together_the_deaf_by_sigkill(tmp_path):
    """Ten that hear SIGTERM and ten that do not: all are gone after one wait, not one wait each."""
    domains = names_of(20)
    with ExitStack() as stack:
        guests = {}
        for number, (vm, domain) in enumerate(domains.items()):
            guests[vm] = stack.enter_context(guest(domain, DEAF if number % 2 else POLITE))
            note(tmp_path, domain, guests[vm].pid)
        processes = DomainProcesses(tmp_path)

        async def scenario():
            await processes.look(domains)
            assert processes.rehearse(list(domains)).failed == {}
            assert all(process.poll() is None for process in guests.values())
            return await processes.end_all(list(domains), polite_s=0.5, reap_s=60.0)

        assert asyncio.run(scenario()) == ({}, ())
        codes = [wait_for_exit(process) for process in guests.values()]
        assert set(codes[1::2]) == {-9}
        assert set(codes[::2]) <= {-15, -9}, "on a busy machine SIGKILL may overtake"


@pytest.mark.parametrize("content", ["", "x", "-1", "0", "9" * 5000, "4194304", "٣", "1 2"])
def test_pid_file_that_makes_no_sense_promises_nothing(content, tmp_path):
    note(tmp_path, "hostler-0", content)
    processes = DomainProcesses(tmp_path)
    asyncio.run(processes.look(names_of(1)))
    assert "cannot be seen" in processes.rehearse(["vm-0"]).failed["vm-0"]
    assert asyncio.run(processes.end_all(["vm-0"], polite_s=0, reap_s=0)) == ({}, ("vm-0",))


def test_process_that_has_the_pid_of_a_dead_domain_is_left_alone(tmp_path):
    """The daemon was killed before it removed the file, and another process has the number by now."""
    with guest("another") as stranger:
        note(tmp_path, "hostler-0", stranger.pid)
        processes = DomainProcesses(tmp_path)

        async def scenario():
            await processes.look(names_of(1))
            return await processes.end_all(["vm-0"], polite_s=0, reap_s=0)

        assert asyncio.run(scenario()) == ({}, ("vm-0",))
        assert stranger.poll() is None


def test_domain_is_ended_although_its_pid_file_is_gone_by_then(tmp_path):
    """The watchdog acts on what it saw last: neither a disk nor libvirt has to answer."""
    with guest("hostler-0") as process:
        note(tmp_path, "hostler-0", process.pid)
        processes = DomainProcesses(tmp_path)

        async def scenario():
            await processes.look(names_of(1))
            (tmp_path / "hostler-0.pid").unlink()
            return await processes.end_all(["vm-0"], polite_s=60.0, reap_s=60.0)

        assert asyncio.run(scenario()) == ({}, ())
        assert wait_for_exit(process) == -15


def test_pid_files_are_where_libvirt_keeps_them(monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    found = {uri: str(pid_files_of(uri)) for uri in ("qemu:///system", "qemu:///session", "qemu+ssh://far/system")}
    assert found == {
        "qemu:///system": "/run/libvirt/qemu",
        "qemu:///session": "/run/user/7/libvirt/qemu/run",
        "qemu+ssh://far/system": "None",
    }
    assert pid_files_of("test:///default") is None
