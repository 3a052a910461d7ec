"""kill -9 of agents at random moments under load: their VMs run on, and the next agent adopts them."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

from hostler.agent.drivers.fake import FakeVm
from tests.control.kills.consistency_checks import Found
from tests.control.kills.story import VERBS, rounds, run_story
from tests.control.storms.hosts import size_of
from tests.control.storms.service import CALM, ServiceProcess
from tests.wait import until

pytestmark = pytest.mark.early

HOSTS, CPU, MOST = 3, 16, 24
SIZE = size_of(CPU)
STILL = tuple(verb for verb in VERBS if verb != "migrate")  # fakes of different processes have no wires between them


class AgentProcess:
    """``hostler agent --driver fake``: its VMs are in a file, so they outlive it."""

    def __init__(self, folder: Path, name: str, service: ServiceProcess) -> None:
        self.name = name
        self._home = folder / name
        self._token = folder / f"{name}.token"
        self._log = folder / f"{name}.log"
        self._service = service
        self._process: subprocess.Popen[bytes] | None = None

    async def join(self) -> None:
        headers = {"Authorization": f"Bearer {self._service.key}"}
        async with httpx.AsyncClient(base_url=self._service.address, headers=headers, timeout=120) as client:
            answer = await client.post("/v1/tokens", json={"host_name": self.name})
        self._token.touch(0o600)
        self._token.write_text(answer.json()["secret"])
        self.start()

    def start(self) -> None:
        tie = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        words = [sys.executable, "-m", "hostler", "agent", "--server", self._service.address, "--driver", "fake"]
        words += ["--name", self.name, "--state-dir", str(self._home), "--size", f"cpu={CPU},memory={CPU}Gi,disk=1Ti"]
        words += ["--token-file", str(self._token)]
        with self._log.open("ab") as output:
            self._process = subprocess.Popen([*tie, *words], stdout=output, stderr=output)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def vms(self) -> dict[str, FakeVm]:
        """Return its VMs as they are on the host."""
        state = self._home / "fake.json"
        return msgspec.json.decode(state.read_bytes(), type=dict[str, FakeVm]) if state.exists() else {}


async def deaths(service: ServiceProcess, agents: list[AgentProcess], count: int, seed: int) -> None:
    await service.start()
    for agent in agents:
        await agent.join()

    async def are_in(client: httpx.AsyncClient) -> bool:
        hosts = (await client.get("/v1/hosts")).json()["items"]
        return sum(host["state"] == "ready" for host in hosts) == len(agents)

    headers = {"Authorization": f"Bearer {service.key}"}
    async with httpx.AsyncClient(base_url=service.address, headers=headers, timeout=120) as client:
        await until(lambda: are_in(client), "all agents are in")

    async def kill(number: int, dice: random.Random) -> None:
        victims = agents if number % 5 == 4 else [dice.choice(agents)]
        for agent in victims:
            agent.kill()
        for agent in victims:
            agent.start()

    def found() -> Found:
        return {agent.name: agent.vms() for agent in agents}

    await rounds([service], found, kill, count=count, seed=seed, most=MOST, size=SIZE, verbs=STILL)


def play(folder: Path, url: str, count: int, seed: int) -> None:
    service = ServiceProcess(folder, url, options=CALM)
    agents = [AgentProcess(folder, f"host-{number}", service) for number in range(HOSTS)]
    try:
        run_story(deaths(service, agents, count, seed), [service])
    finally:
        for agent in agents:
            agent.kill()


def test_ten_deaths_of_agents(tmp_path: Path, sqlite_url: str):
    play(tmp_path, sqlite_url, 10, seed=21)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [22, 23])
def test_a_hundred_deaths_of_agents(tmp_path: Path, sqlite_url: str, seed: int):
    play(tmp_path, sqlite_url, 100, seed)
