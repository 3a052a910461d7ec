"""Ends many processes together: one signal to all, one wait for all, and SIGKILL at a fixed time.

Drivers use it to halt VMs for the watchdog. ``ProcessTable`` is the interface to the kernel; tests replace it to play
processes that survive SIGKILL. Invariant: a process counts as ended only after the kernel has said so.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Protocol

from hostler.agent.drivers.machine.processes import ProcessId, open_process, read_state, wait_for_descriptor

__all__ = ["KernelProcesses", "ProcessHalt", "ProcessHandle", "ProcessTable"]

_STUCK_LOOKS = 3  # looks in a row in state D: a process that reads a disk is in it for moments
_MOST_AT_ONCE = 1024  # descriptors of processes, if the limit of open files allows more
_OTHER_FILES = 64  # that this process has open beside them


class ProcessHandle(Protocol):
    """An opened process: it stays the same process, even if another one gets its pid later."""

    def send(self, number: int) -> None:
        """Send a signal; 0 only checks whether that is allowed. ProcessLookupError, PermissionError."""
        ...

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended; return whether it has."""
        ...

    def state(self) -> str:
        """Return its state as one letter; D waits in the kernel and hears no signal. Empty if it has ended."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class ProcessTable(Protocol):
    """Where processes are found by their ids."""

    def open(self, process: ProcessId) -> ProcessHandle | None:
        """Open a process; None if it has ended."""
        ...


class ProcessHalt:
    """Ends the processes of VMs, or tries out whether it could."""

    def __init__(self, table: ProcessTable | None = None) -> None:
        self._table = table or KernelProcesses()
        self._stuck: dict[ProcessId, int] = {}  # how often in a row it was seen in the state D
        # Of SIGKILL. As long as one is there, it is not claimed to be stoppable.
        self._survivors: set[ProcessId] = set()

    def most_at_once(self) -> int:
        """Return how many processes can be ended together: each takes a descriptor."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = _MOST_AT_ONCE if soft == resource.RLIM_INFINITY else soft - _OTHER_FILES
        return max(min(limit, _MOST_AT_ONCE), 0)

    async def end_all(self, processes: Mapping[str, ProcessId], *, polite_s: float, reap_s: float) -> dict[str, str]:
        """End all of them; return why for each VM whose process has not ended after both waits."""
        failed: dict[str, str] = {}
        with ExitStack() as stack:
            handles = self._open(processes, stack, failed)
            for number, patience_s in ((signal.SIGTERM, polite_s), (signal.SIGKILL, reap_s)):
                if number == signal.SIGTERM and polite_s <= 0:
                    continue
                for vm in list(handles):
                    why = _send(handles[vm], number)
                    if why is not None:
                        failed[vm] = why
                        del handles[vm]
                ended = await _wait_together(handles, patience_s)
                handles = {vm: handle for vm, handle in handles.items() if vm not in ended}
                if not handles:
                    break
            self._survivors |= {processes[vm] for vm in handles}
            for vm, handle in handles.items():
                failed[vm] = f"process {processes[vm].pid} of {vm} survives SIGKILL (state {handle.state() or '?'})"
        return failed

    def rehearse(self, processes: Mapping[str, ProcessId]) -> dict[str, str]:
        """Do all that ``end_all`` does but the signals; return why for each VM whose process it might not end."""
        failed: dict[str, str] = {}
        stuck: dict[ProcessId, int] = {}
        with ExitStack() as stack:
            handles = self._open(processes, stack, failed)
            self._survivors &= {processes[vm] for vm in handles}
            for vm, handle in handles.items():
                why, process = _send(handle, 0), processes[vm]
                if why is not None:
                    failed[vm] = why
                elif process in self._survivors:
                    failed[vm] = f"process {process.pid} of {vm} has survived SIGKILL"
                elif handle.state() == "D":
                    stuck[process] = self._stuck.get(process, 0) + 1
                    if stuck[process] >= _STUCK_LOOKS:
                        failed[vm] = f"process {process.pid} of {vm} hangs in the kernel and might survive SIGKILL"
        self._stuck = stuck
        return failed

    def _open(
        self, processes: Mapping[str, ProcessId], stack: ExitStack, failed: dict[str, str]
    ) -> dict[str, ProcessHandle]:
        handles: dict[str, ProcessHandle] = {}
        for vm, process in processes.items():
            try:
                handle = self._table.open(process)
            except OSError as error:
                failed[vm] = f"process {process.pid} of {vm} cannot be opened: {error}"
                continue
            if handle is not None:
                stack.callback(handle.close)
                handles[vm] = handle
        return handles


class KernelProcesses:
    """The processes of this machine, by descriptors (pidfd)."""

    def open(self, process: ProcessId) -> ProcessHandle | None:
        """Open a process; None if it has ended."""
        descriptor = open_process(process)
        return None if descriptor is None else _KernelProcess(process, descriptor)


class _KernelProcess:
    def __init__(self, process: ProcessId, descriptor: int) -> None:
        self._process = process
        self._descriptor = descriptor

    def send(self, number: int) -> None:
        signal.pidfd_send_signal(self._descriptor, number)

    async def wait(self, timeout_s: float) -> bool:
        return await wait_for_descriptor(self._descriptor, timeout_s)

    def state(self) -> str:
        found = read_state(self._process.pid)
        return "" if found is None or found[1] != self._process.started else found[0]

    def close(self) -> None:
        os.close(self._descriptor)


def _send(handle: ProcessHandle, number: int) -> str | None:
    """Send a signal; return why that did not work. One that ended meanwhile needs none."""
    try:
        handle.send(number)
    except ProcessLookupError:
        return None
    except OSError as error:
        return f"signal {number} is not allowed: {error}"
    return None


async def _wait_together(handles: Mapping[str, ProcessHandle], timeout_s: float) -> Collection[str]:
    """Wait for all of them at once; return those that have ended."""
    outcomes = await asyncio.gather(*(handle.wait(timeout_s) for handle in handles.values()))
    return {vm for vm, has_ended in zip(handles, outcomes, strict=True) if has_ended}
