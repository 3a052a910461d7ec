"""A preemption that is under way for as long as a test wants: its victim stops on command.

The VM of higher priority is kept away by anti-affinity alone, so only the victim's end helps it. A bystander that
leaves the host changes nothing for it, and an engine must know that however it was made.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx

from tests.control.storms.hosts import StormHost
from tests.control.storms.service import ServiceProcess
from tests.wait import until

__all__ = ["NAMES", "Preemption"]

NAMES = ("victim", "bystander", "urgent")
_TOPOLOGY = "kubernetes.io/hostname"


class Preemption:
    """One host, and three VMs by the REST API of a service that may die at any time."""

    def __init__(self, service: ServiceProcess, hosts: Sequence[StormHost]) -> None:
        self._service = service
        self._hosts = hosts
        self._ids: dict[str, str] = {}
        self.may_end = asyncio.Event()  # the victim

    async def begin(self) -> None:
        """Let two VMs run, and a third one be promised the room of the first."""
        away = {"topology": _TOPOLOGY, "selector": {"app": "web"}}
        await self.create("victim", priority=0, anti_affinity=[away])
        await self.create("bystander", priority=0)
        await self.until("bystander", lambda vm: vm["state"] == "running")
        await self.until("victim", lambda vm: vm["state"] == "running")
        for host in self._hosts:
            host.driver.lingering[self._ids["victim"]] = self.may_end
        await self.create("urgent", priority=100, labels={"app": "web"})
        await self.until_under_way()

    async def until_under_way(self) -> None:
        """Wait until the victim is stopping, and the VM of higher priority waits for its room."""
        await self.until("victim", lambda vm: vm["state"] == "stopping")
        await self.until("urgent", lambda vm: vm["state"] == "pending" and "room is made" in vm["why"])

    async def let_bystander_go(self) -> None:
        """Stop the bystander: its room comes back, and nothing else on the host changes."""
        async with self._client() as client:
            answer = await client.post(f"/v1/vms/{self._ids['bystander']}/stop")
        assert answer.status_code < 300, answer.text
        await self.until("bystander", lambda vm: vm["state"] == "stopped")

    async def until(self, name: str, is_so: Any) -> dict[str, Any]:
        """Wait for a state of a VM, and return it."""
        seen: dict[str, Any] = {}

        async def look() -> bool:
            async with self._client() as client:
                answer = await client.get(f"/v1/vms/{self._ids[name]}")
            seen.update(answer.json())
            return answer.status_code == 200 and bool(is_so(seen))

        await until(look, f"VM {name}", saw=lambda: f"{seen}\n{self._service.log.read_text()[-3000:]}")
        return seen

    async def decision(self, name: str) -> httpx.Response:
        """Return what REST answers if asked to explain a VM."""
        async with self._client() as client:
            return await client.get(f"/v1/vms/{self._ids[name]}/decision")

    def check_once(self) -> None:
        """Check that no VM runs on two hosts, and none was started twice."""
        there = Counter(vm for host in self._hosts for vm, here in host.driver.vms.items() if here.power == "running")
        assert not [vm for vm, count in there.items() if count > 1], there
        assert all(here.runs <= 1 for host in self._hosts for here in host.driver.vms.values())

    async def create(self, name: str, **spec: Any) -> None:
        """Ask for a small VM."""
        body = {"name": name, "spec": {"cpu": 1, "memory": "1Gi", **spec}}
        async with self._client() as client:
            answer = await client.post("/v1/vms", json=body)
        assert answer.status_code < 300, answer.text
        self._ids[name] = answer.json()["vm"]["id"]

    def _client(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self._service.key}"}
        return httpx.AsyncClient(base_url=self._service.address, headers=headers, timeout=60)
