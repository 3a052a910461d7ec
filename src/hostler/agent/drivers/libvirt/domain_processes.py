"""Processes of libvirt's domains, found and ended for the watchdog; used by ``driver``.

Libvirt itself waits for 10 s before it sends SIGKILL, which is later than the control plane waits. So the watchdog ends
the processes of domains by itself. Libvirt's own pid files say which they are, and the command line must name the same
domain. Neither would do alone: a pid file may be left from a process whose number another one has by now, and any
process can name a domain. What was seen last is kept in memory: to end VMs takes no disk and no libvirt.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from hostler.agent.background_thread import BackgroundThread
from hostler.agent.boot import boot_id
from hostler.agent.driver import HaltRehearsal
from hostler.agent.drivers.machine.process_halt import ProcessHalt
from hostler.agent.drivers.machine.processes import ProcessId, guest_of, read_arguments, read_count, read_state

__all__ = ["DomainProcesses", "pid_files_of"]

_LAST_PID = 2**22  # of Linux, at most
_NO_PROCESS = "its process cannot be seen from here: libvirt ends it, but not by a deadline"


class DomainProcesses:
    """The processes of one host's domains. ``pid_files``: libvirt's folder of them; None if there is none."""

    def __init__(self, pid_files: Path | None) -> None:
        self._pid_files = pid_files
        self._processes = ProcessHalt()
        self._running: dict[str, ProcessId] = {}
        self._reading = BackgroundThread("looking at the processes of domains")

    async def look(self, domains: Mapping[str, str]) -> None:
        """Remember which processes the running VMs are; ``domains``: their names in libvirt, by VM."""
        self._running = await self._reading.run(lambda: self._read(domains))

    def rehearse(self, vms: Collection[str]) -> HaltRehearsal:
        """Try out whether these VMs could be ended by a deadline."""
        failed = self._processes.rehearse(self._seen(vms))
        failed |= dict.fromkeys((vm for vm in vms if vm not in self._running), _NO_PROCESS)
        return HaltRehearsal(failed=failed, most_at_once=self._processes.most_at_once())

    async def end_all(
        self, vms: Collection[str], *, polite_s: float, reap_s: float
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """End VMs together; return why for each that has not ended, and those whose processes were not seen."""
        failed = await self._processes.end_all(self._seen(vms), polite_s=polite_s, reap_s=reap_s)
        return failed, tuple(vm for vm in vms if vm not in self._running)

    def _seen(self, vms: Collection[str]) -> dict[str, ProcessId]:
        return {vm: self._running[vm] for vm in vms if vm in self._running}

    def _read(self, domains: Mapping[str, str]) -> dict[str, ProcessId]:
        found = {vm: _read_process(self._pid_files, domain) for vm, domain in domains.items()}
        return {vm: process for vm, process in found.items() if process is not None}


def pid_files_of(uri: str) -> Path | None:
    """Return where libvirt notes the processes of domains; None for another machine and for domains without any."""
    address = urlsplit(uri)
    if address.netloc or address.scheme != "qemu":
        return None
    if address.path != "/session":
        return Path("/run/libvirt/qemu")
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(own) / "libvirt/qemu/run" if own else None


def _read_process(folder: Path | None, domain: str) -> ProcessId | None:
    """Return the process of a domain, if libvirt notes one that is there."""
    if folder is None or "/" in domain or "\0" in domain:
        return None
    try:
        with (folder / f"{domain}.pid").open("rb") as file:
            text = file.read(32).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    pid = read_count(text, most=_LAST_PID)
    state = read_state(pid) if pid else None
    if not pid or state is None or state[0] in ("Z", "X") or not _names_domain(pid, domain):
        return None
    return ProcessId(pid, state[1], boot_id())


def _names_domain(pid: int, domain: str) -> bool:
    """Say whether the command line of a process names a domain as its guest."""
    try:
        return guest_of(read_arguments(pid)) == domain
    except OSError:
        return False
