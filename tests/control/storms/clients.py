"""Clients of a service, and what was promised to them. A wish without an answer is sent again with the same key."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from tests.control.storms.service import ServiceProcess
from tests.wait import until

__all__ = ["Owned", "ServiceClients", "connect_clients", "operator"]

_ANSWERED = (200, 202)
_DISKS = (0, 0, 400)  # GiB
_TURNED_DOWN = (404, 409)  # of verbs on a VM that goes, moves, or is as wished already
_METHODS = {"delete": "DELETE", "resize": "PATCH"}
_THEN = {"delete": "absent", "stop": "stopped", "start": "running", "pause": "paused", "resume": "running"}


class ClientRequest(msgspec.Struct, frozen=True):
    """A request; sent again it is the same."""

    verb: str
    path: str
    key: str
    body: dict[str, Any] | None = None


class Owned(msgspec.Struct):
    """A VM as its owner knows it. ``wish`` was sent and is not answered yet: one at a time, so the last is known."""

    name: str
    cpu: int = 1  # and as many GiB of memory
    disk: int = 0  # GiB on its host
    id: str = ""
    power: str = "running"  # or paused, stopped, absent
    wish: ClientRequest | None = None

    @property
    def is_alive(self) -> bool:
        """Say whether it was made and is not to go."""
        return bool(self.id) and self.power != "absent"


class ServiceClients:
    """Everybody's VMs and the ways to the replicas."""

    def __init__(self, clients: Sequence[httpx.AsyncClient], seed: int) -> None:
        self.random = random.Random(seed)
        self.owned: list[Owned] = []
        self.answers = 0
        self.taken: Counter[str] = Counter()  # wishes by their verbs, without those that were turned down
        self.unanswered = 0
        self._clients = clients
        self._number = 0

    def client(self, at: int | None = None) -> httpx.AsyncClient:
        """Return the way to some replica."""
        return self._clients[(self.random.randrange(1000) if at is None else at) % len(self._clients)]

    async def create(self, at: int | None = None, *, cpu: int = 0, disk: int = 0) -> Owned:
        """Ask for a VM of some size."""
        self._number += 1
        one = Owned(name=f"vm-{self._number}", cpu=cpu or self.random.choice([1, 1, 1, 2]), disk=disk)
        self.owned.append(one)
        spec: dict[str, Any] = {"cpu": one.cpu, "memory": f"{one.cpu}Gi"}
        if disk:
            spec["disks"] = [{"size": f"{disk}Gi"}]
        await self._wish(one, ClientRequest("create", "/v1/vms", self._key(), {"name": one.name, "spec": spec}), at)
        return one

    async def change(self, one: Owned, verb: str, at: int | None = None) -> None:
        """Ask for something about a VM: delete, start, stop, restart, pause, resume, migrate."""
        path = f"/v1/vms/{one.id}" if verb == "delete" else f"/v1/vms/{one.id}/{verb}"
        await self._wish(one, ClientRequest(verb, path, self._key()), at)

    async def resize(self, one: Owned, cpu: int, at: int | None = None) -> None:
        """Ask for another size of a VM."""
        body = {"spec": {"cpu": cpu, "memory": f"{cpu}Gi"}}
        await self._wish(one, ClientRequest("resize", f"/v1/vms/{one.id}", self._key(), body), at)

    def _key(self) -> str:
        return f"key-{self.random.getrandbits(64):x}"

    async def _wish(self, one: Owned, wish: ClientRequest, at: int | None) -> None:
        one.wish = wish
        await self.send(one, at)

    async def send(self, one: Owned, at: int | None = None) -> bool:
        """Send what an owner wishes; say whether it was answered."""
        wish = one.wish
        if wish is None:
            return True
        method, headers = _METHODS.get(wish.verb, "POST"), {"Idempotency-Key": wish.key}
        try:
            answer = await self.client(at).request(method, wish.path, json=wish.body, headers=headers)
        except httpx.TransportError:
            self.unanswered += 1
            return False
        if answer.status_code >= 500:
            self.unanswered += 1
            return False
        told = f"{wish.verb} of {one.name}: {answer.status_code} {answer.text[:500]}"
        assert answer.status_code in _ANSWERED or _is_turned_down(one, wish, answer), told
        self.answers += 1
        self.taken[wish.verb] += answer.status_code in _ANSWERED
        one.wish = None
        if answer.status_code in _ANSWERED:
            one.id = answer.json()["vm"]["id"]
            one.power = _THEN.get(wish.verb, one.power)
            if wish.verb == "resize" and wish.body is not None:
                one.cpu = wish.body["spec"]["cpu"]
        elif wish.verb == "delete" and answer.status_code == 404:
            one.power = "absent"
        return True

    async def resolve(self) -> None:
        """Send again, with the same keys, whatever was not answered."""

        async def all_sent() -> bool:
            waiting = [one for one in self.owned if one.wish is not None]
            return all(await asyncio.gather(*(self.send(one) for one in waiting)))

        await until(all_sent, "all wishes are answered")

    async def live(self, stopping: asyncio.Event, verbs: Sequence[str], most: int) -> None:
        """Wish for something again and again; what is not answered is sent again before anything else."""
        while not stopping.is_set():
            alive = [one for one in self.owned if one.is_alive and one.wish is None]
            if len(alive) < most and (not alive or self.random.random() < 0.5):
                one = await self.create(disk=self.random.choice(_DISKS))
            elif alive:
                one, verb = self.random.choice(alive), self.random.choice(verbs)
                if verb == "resize":
                    await self.resize(one, self.random.choice([1, 2, 3]))
                else:
                    await self.change(one, verb)
            while one.wish is not None and not stopping.is_set():
                await asyncio.sleep(0.1)
                await self.send(one)
            await asyncio.sleep(0.01 * self.random.random())

    async def vms(self) -> list[dict[str, Any]]:
        """Return all VMs as the service tells."""
        return await self.pages("/v1/vms")

    async def pages(self, path: str) -> list[dict[str, Any]]:
        """Return all of a list."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            query: dict[str, Any] = {"limit": 500, "after": after} if after else {"limit": 500}
            answer = await self.client().get(path, params=query)
            answer.raise_for_status()
            page = answer.json()
            found += page["items"]
            after = page["next"]
            if not after:
                return found

    async def settled(self) -> list[dict[str, Any]]:
        """Wait until every wish came true, or waits for a place with a reason; return all VMs then."""
        found: list[dict[str, Any]] = []

        async def is_settled() -> bool:
            nonlocal found
            try:
                found = await self.vms()
            except httpx.HTTPError:
                return False
            going = {one.id for one in self.owned if one.power == "absent"}
            return all(vm["id"] not in going and _is_at_rest(vm) for vm in found)

        try:
            await until(is_settled, "all wishes came true")
        except AssertionError as error:
            raise AssertionError(f"{error}: {[vm for vm in found if not _is_at_rest(vm)][:3]}") from None
        return found

    async def judged(self, judge: Callable[[list[dict[str, Any]]], None]) -> list[dict[str, Any]]:
        """Wait until all is settled, then check everything; return all VMs.

        Who waits may be given a place while the judge still looks: a judgement counts if nothing changed meanwhile.
        """
        told: list[dict[str, Any]] = []

        async def is_said() -> bool:
            nonlocal told
            told = await self.settled()
            verdict = None
            try:
                judge(told)
            except AssertionError as error:
                verdict = error
            if await self.vms() != told:
                return False
            if verdict is not None:
                raise verdict
            return True

        await until(is_said, "nothing changes while it is judged")
        return told


def _is_turned_down(one: Owned, wish: ClientRequest, answer: httpx.Response) -> bool:
    if one.disk and wish.verb == "migrate" and answer.status_code == 400:
        return bool(answer.json()["code"] == "not_movable")
    return wish.verb != "create" and answer.status_code in _TURNED_DOWN


def _is_at_rest(vm: dict[str, Any]) -> bool:
    waits = vm["state"] in ("pending", "resizing") and bool(vm["why"])
    return waits or vm["observed_generation"] == vm["generation"]


@asynccontextmanager
async def operator(client: httpx.AsyncClient):
    """Let an operator look at what agents refuse to tear down at once, and allow it."""

    async def look() -> None:
        try:
            found = (await client.get("/v1/hosts", params={"limit": 500})).json()["items"]
            for host in found:
                if host["refused_teardown"]:
                    path, body = f"/v1/hosts/{host['id']}/allow-teardown", {"confirm": host["refused_teardown"]}
                    await client.post(path, json=body)  # 409 where it changed: then look again
        except (httpx.TransportError, KeyError):
            return

    async def work() -> None:
        while True:
            await look()
            await asyncio.sleep(0.2)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def connect_clients(services: Sequence[ServiceProcess], seed: int, *, heads: int = 16):
    """Give so many clients, spread over the replicas; one of them is an operator."""
    headers = {"Authorization": f"Bearer {services[0].key}"}
    clients = [
        httpx.AsyncClient(base_url=services[at % len(services)].address, headers=headers, timeout=240, verify=False)
        for at in range(heads)
    ]
    try:
        async with operator(clients[-1]):
            yield ServiceClients(clients, seed)
    finally:
        for client in clients:
            await client.aclose()
