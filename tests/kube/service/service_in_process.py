"""A scheduler with its service, on an API server in memory or on a real one."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager

import aiohttp

from hostler.kube.api.client import KubeClient
from hostler.kube.configuration import default_settings
from hostler.kube.memory import ApiServer
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.server import serve
from hostler.runtime.engine_thread import InlineExecutor

OURS = "hostler-scheduler"


def pod(name, cpu="1", namespace="default", **spec):
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": containers, "schedulerName": OURS, **spec},
    }


def node(name, cpu="4"):
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "110"}}}


def server_with(*items):
    """Make an API server in memory with two users: ann, who may do everything, and eve, who may do nothing."""
    server = ApiServer()
    server.permissions.tokens |= {name: {"username": name, "groups": ["people"]} for name in ("ann", "eve")}
    server.permissions.denied.add(("eve", "*", "*"))
    for item in items:
        server.put(item)
    return server


class PageClient:
    """A client of the pages."""

    def __init__(self, address, session, scheduler, client):
        self.address = address
        self.session = session
        self.scheduler = scheduler
        self.client = client

    async def get(self, path, token="ann", **headers):
        return await self._read("GET", path, token, None, headers)

    async def post(self, path, body, token="ann"):
        return await self._read("POST", path, token, body, {})

    async def _read(self, method, path, token, body, headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        async with self.session.request(method, self.address + path, data=body, headers=headers) as answer:
            is_json = answer.content_type.endswith("json")
            return answer.status, await (answer.json(content_type=None) if is_json else answer.text())


@asynccontextmanager
async def scheduling(server, *, review_client=None, journal=None, wait=True, **options):
    """Run a scheduler on an API server in memory, and serve its pages on a free port."""
    client = KubeClient(server.transport())
    clock, executor = server.clock, InlineExecutor()
    scheduler = Scheduler(
        client, default_settings(), clock=clock, executor=executor, identity="me", random=random.Random(1),
        journal=journal,
    )  # fmt: skip
    stop = asyncio.Event()
    async with serve(
        scheduler, review_client or client, "127.0.0.1:0", executor=executor, clock=clock, **options
    ) as address:
        running = asyncio.ensure_future(scheduler.run(stop))
        try:
            while wait and not scheduler.is_synced:
                await asyncio.sleep(0.01)
            async with aiohttp.ClientSession() as session:
                yield PageClient(address, session, scheduler, client)
        finally:
            stop.set()
            await running
            await client.close()


def has_decided(scheduler):
    """Return whether a scheduler has decided all pods, and all writes are done."""
    return scheduler.loop.last_turn_at > 0 and not scheduler.binder.backlog and not scheduler.write_queue.backlog
