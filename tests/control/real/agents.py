"""Hosts as operators run them: ``hostler agent --driver qemu`` processes on this machine, each with folders of its own.

The kernel ends an agent with us. Its watchdog and its VMs are meant to outlive it: they are ended by their pids.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.agent.drivers.qemu_setup import QemuSetup
from tests.control.storms.service import ServiceProcess
from tests.wait import GIVE_UP_S, until

__all__ = ["QemuAgent", "processes_of", "ticks"]

_PROC = Path("/proc")


def processes_of(folder: Path) -> dict[int, str]:
    """Return every process whose command line names something in a folder, by pid."""
    found: dict[int, str] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(f"{word}/".startswith(f"{folder}/") for word in words):
            found[int(entry.name)] = " ".join(words)
    return found


def ticks(console: str) -> list[int]:
    """Return what a guest has counted on its console."""
    whole = console.split("\n")[:-1]  # the last line may not have come to its end
    return [int(line.split()[-1]) for line in whole if line.startswith("guest: tick ")]


class QemuAgent:
    """One host: its folders outlive its agents."""

    def __init__(self, setup: QemuSetup, name: str, service: ServiceProcess) -> None:
        self.name = name
        self.log = setup.folder / f"{name}.log"
        self._lab = setup
        self._service = service
        self._token = setup.folder / f"{name}.token"
        self._process: subprocess.Popen[bytes] | None = None

    async def join(self, client: httpx.AsyncClient) -> None:
        """Join by a token, and wait until VMs may come."""
        answer = await client.post("/v1/tokens", json={"host_name": self.name})
        assert answer.status_code == 201, answer.text
        self._token.touch(0o600)
        self._token.write_text(answer.json()["secret"])
        self.start()
        await self.in_service(client)
        # Other tests may boot VMs at the same time, which count as strangers here.
        room = {"overcommit": {"cpu": "32", "memory": "8"}}
        assert (await client.patch(f"/v1/hosts/{self.name}", json=room)).status_code == 200

    def start(self) -> None:
        """Start the agent and wait for nothing."""
        assert self._process is None
        tie = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        words = [sys.executable, "-m", "hostler", "agent", "--server", self._service.address, "--driver", "qemu"]
        words += ["--name", self.name, "--state-dir", str(self._lab.folder / f"{self.name}-state")]
        words += ["--token-file", str(self._token), "--vm-dir", str(self._lab.folder / self.name)]
        words += ["--image-root", str(self._lab.images)]
        words += ["--vm-user", "nobody"] if os.getuid() == 0 else []
        with self.log.open("ab") as output:
            self._process = subprocess.Popen([*tie, *words], stdout=output, stderr=output)

    async def in_service(self, client: httpx.AsyncClient) -> None:
        """Wait until the service counts on it."""

        async def is_ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()[-4000:]
            answer = await client.get(f"/v1/hosts/{self.name}")
            return answer.status_code == 200 and answer.json()["state"] == "ready"

        await until(is_ready, f"{self.name} is ready")

    def kill(self) -> None:
        """End the agent as the kernel does when memory is short; not its VMs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End the agent in good order."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(GIVE_UP_S) == 0, self.log.read_text()[-4000:]
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it did not end: {self.log.read_text()[-4000:]}") from None

    def qemu_pid(self, vm: str) -> int:
        """Return the process that runs a VM here; 0 for none."""
        here = self._lab.folder / self.name / "vms" / vm
        found = [pid for pid, words in processes_of(here).items() if _is_qemu(words)]
        assert len(found) < 2, found
        return found[0] if found else 0

    def has(self, vm: str) -> bool:
        """Say whether anything of a VM is left here."""
        return (self._lab.folder / self.name / "vms" / vm).exists()

    async def clean(self) -> None:
        """End the agent and its watchdog, whatever became of the test."""
        self.kill()
        for pid, words in processes_of(self._lab.folder / f"{self.name}-state").items():
            assert "--watchdog only" in words, words
            os.kill(pid, signal.SIGKILL)

        async def is_quiet() -> bool:
            await asyncio.sleep(0)
            return not processes_of(self._lab.folder / f"{self.name}-state")

        await until(is_quiet, f"nothing of {self.name} runs")


def _is_qemu(words: str) -> bool:
    return Path(words.split(" ", 1)[0]).name.startswith("qemu-system-")
