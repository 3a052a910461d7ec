"""``hostler agent --driver qemu`` with a real VM: it outlives its agent, and a watchdog ends it when silence must."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.agent.drivers.qemu.processes import scan
from hostler.agent.messages import HostSize
from hostler.agent.startup import AgentFolder
from tests.agent.drivers.qemu_setup import QemuSetup
from tests.agent.fake_control_plane import TOKEN
from tests.cli.control.command_process import command, control_plane, secret
from tests.wait import until

# Many heartbeats: a busy machine may hold some of them up.
HEARTBEAT_S, STOP_AFTER_S = 0.5, 10.0
ROOM = HostSize(cpu_millis=64_000, memory_bytes=2**40)  # whatever else runs on this machine


class Host:
    """An agent's folders and words."""

    def __init__(self, lab: QemuSetup, tmp_path: Path) -> None:
        self.lab = lab
        self.home = tmp_path
        self.token = secret(tmp_path / "token", TOKEN)

    def agent(self, address: str):
        words = ["agent", "--server", address, "--driver", "qemu", "--name", "one", "--token-file", self.token]
        words += ["--vm-dir", self.lab.folder / "one", "--image-root", self.lab.images, "--acceleration", "tcg"]
        return command(*words, *(("--vm-user", "nobody") if os.getuid() == 0 else ()), home=self.home)

    @property
    def machines(self) -> int:
        return sum(one.pid_file.startswith(f"{self.lab.folder}/") for one in scan())

    @property
    def folder(self) -> Path:
        return self.home / "hostler" / "agents" / "one"

    @property
    def watchdog(self) -> int:
        """Return the process of the watchdog; 0 before there was one."""
        lock = self.folder / "watchdog.lock"
        return int(lock.read_text().strip() or 0) if lock.exists() else 0

    def has_looked_in_silence(self) -> bool:
        """Say whether the watchdog has looked when the control plane had not heard of this host for too long."""
        home = AgentFolder(self.folder)
        lease, pulse = home.lease.read(), home.pulse.read()
        if lease is None or pulse is None:
            return False
        return pulse.looked_at > lease.renewed_at + STOP_AFTER_S * 10**9


@asynccontextmanager
async def real_host(tmp_path):
    host = Host(QemuSetup(tmp_path), tmp_path)
    try:
        yield host
    finally:
        if host.watchdog and is_alive(host.watchdog):
            os.kill(host.watchdog, signal.SIGTERM)
            await until(lambda: not is_alive(host.watchdog))
        await host.lab.clean()


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("when_silent", ["keep", "stop"])
async def test_a_vm_outlives_its_agent_unless_silence_is_to_stop_it(when_silent, tmp_path):
    async with real_host(tmp_path) as host, control_plane() as there:
        there.plane.limit, there.plane.heartbeat_s, there.plane.stop_after_s = ROOM, HEARTBEAT_S, STOP_AFTER_S
        there.plane.order(host.lab.order("a", when_silent=when_silent))
        async with host.agent(there.address) as first:
            await until(lambda: "a" in there.plane.vms and there.plane.vms["a"].state == "running")
            await until(lambda: there.plane.reports and there.plane.reports[-1].is_watched)
            os.kill(host.watchdog, signal.SIGSTOP)
            await until(lambda: not there.plane.reports[-1].is_watched)
            os.kill(host.watchdog, signal.SIGCONT)
            await until(lambda: there.plane.reports[-1].is_watched)
            await first.end(signal.SIGKILL)
        assert not there.plane.registrations[0].is_watched, "there was none yet"
        assert is_alive(host.watchdog)
        assert os.getsid(host.watchdog) == host.watchdog, "^C for the agent is not for it"
        if when_silent == "stop":
            await until(lambda: not host.machines)
            return
        await until(host.has_looked_in_silence)
        assert host.machines == 1
        there.plane.order(host.lab.order("a", 2, power="absent"))
        async with host.agent(there.address) as second:
            await until(lambda: "a" not in there.plane.vms)
            code, _, err = await second.end(signal.SIGTERM)
        assert code == 0
        assert "watchdog started" not in err, "the first one's is still there"
        assert host.machines == 0
