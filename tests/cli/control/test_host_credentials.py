"""``hostler host rotate`` and ``revoke``, and ``key renew-sessions``: a real service, agents that reach it by HTTP."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from hostler.agent.connection.credentials import MemoryCredentials
from hostler.agent.connection.http import HttpTransport
from hostler.agent.connection.link import AgentRejectedError, Link
from hostler.agent.drivers.fake import FakeDriver
from hostler.agent.manifest import MemoryManifest
from hostler.agent.process import Agent
from hostler.agent.settings import AgentSettings
from hostler.control.schemas import TokenCreate
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import secret
from tests.cli.control.control_plane_thread import SIZE, ControlPlaneThread, plane
from tests.wait import GIVE_UP_S


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A control plane without hosts."""
    folder = tmp_path_factory.mktemp("plane")
    with plane(folder) as running:
        secret(folder / "admin.key", running.key)
        yield running


@pytest.fixture(autouse=True)
def context(there, monkeypatch):
    """What commands mean."""
    monkeypatch.setenv("HOSTLER_SERVER", there.address)
    monkeypatch.setenv("HOSTLER_KEY_FILE", str(there.folder / "admin.key"))


class Host:
    """A host whose agent lives in a loop of the test."""

    def __init__(self, there: ControlPlaneThread, name: str) -> None:
        self.there = there
        self.name = name
        self.credentials = MemoryCredentials()
        self.driver = FakeDriver(name, size=SIZE)

    async def run(self, stopping: asyncio.Event) -> None:
        with self.there.client() as client:
            token = client.tokens.create(TokenCreate(host_name=self.name)).secret
        transport = HttpTransport(self.there.address)
        settings = AgentSettings(name=self.name, poll_s=1.0)
        link = Link(transport, self.credentials)
        run_id = uuid.uuid4().hex
        agent = Agent(link, self.driver, MemoryManifest(), settings, boot="boot-1", run_id=run_id, token=token)
        try:
            await agent.run(stopping)
        finally:
            await transport.close()

    @property
    def credential(self) -> str:
        identity = self.credentials.load()
        return "" if identity is None else identity.credential

    def state(self) -> str:
        with self.there.client() as client:
            return next((host.state for host in client.hosts.list() if host.name == self.name), "")

    async def until(self, is_so) -> None:
        async with asyncio.timeout(GIVE_UP_S):
            while not await asyncio.to_thread(is_so):
                await asyncio.sleep(0.02)


async def test_agent_with_revoked_credential_rejoins_with_new_token(there):
    host, stopping = Host(there, "node-1"), asyncio.Event()
    life = asyncio.ensure_future(host.run(stopping))
    await host.until(lambda: host.state() == "ready")
    result = await asyncio.to_thread(hostler, "host", "revoke", "node-1", "--yes")
    assert result.lines == ["node-1: offline, its agent's credential is revoked"]
    assert "hostler token create --host node-1" in result.err
    with pytest.raises(AgentRejectedError):
        await life
    assert host.state() == "offline"
    host.credentials = MemoryCredentials()
    life = asyncio.ensure_future(host.run(stopping))
    await host.until(lambda: host.state() == "ready")
    stopping.set()
    await life
    with there.client() as client:
        kinds = [event.kind for event in client.events(limit=500)]
    assert kinds.count("host.revoke-credential") == 1


async def test_an_agent_gets_a_new_credential_by_a_command(there):
    host, stopping = Host(there, "node-2"), asyncio.Event()
    life = asyncio.ensure_future(host.run(stopping))
    await host.until(lambda: host.state() == "ready")
    first = host.credential
    result = await asyncio.to_thread(hostler, "host", "rotate", "node-2")
    assert result.lines == ["node-2: gets a new credential at its next heartbeat"]
    await host.until(lambda: host.credential != first)
    await host.until(lambda: host.state() == "ready")
    stopping.set()
    await life


def test_nobody_is_locked_out_without_being_asked(there):
    result = hostler("host", "revoke", "node-9")
    assert result.code == 2
    assert "--yes" in result.err


def test_sessions_of_the_dashboard_are_ended_by_a_command():
    assert hostler("key", "renew-sessions").code == 2
    assert hostler("key", "renew-sessions", "--yes").lines == ["all sessions of the dashboard have ended"]
