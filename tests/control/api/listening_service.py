"""A service that listens on loopback in a thread of its own, with something of everything and several kinds of keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvicorn

from hostler.control.api.http_server import Server
from tests.control.api.service_in_process import InProcessService, open_service
from tests.wait import GIVE_UP_S

__all__ = ["ListeningService", "listening_service"]

T = TypeVar("T")
_LISTS = ("vms", "hosts", "projects", "gangs", "quotas", "reservations", "tokens")


class ListeningService:
    """The service, its address, what there is by path, and secrets by who has them."""

    def __init__(self, service: InProcessService, address: str, loop: asyncio.AbstractEventLoop) -> None:
        self.in_process = service
        self.address = address
        self.there: dict[str, dict[str, str]] = {}  # what a path begins with to its parameters
        self.secrets: dict[str, str] = {"admin": service.secret, "nobody": ""}
        self.at_rest: dict[str, list[Any]] = {}  # what there was after the last test of another module
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the service's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def fill(self) -> None:
        """Make one thing of every kind, in the project ``red`` and in the default one."""
        service = self.in_process
        await service.add_hosts("a", "b")
        made = [
            ("/v1/projects", {"name": "red"}),
            ("/v1/gangs", {"name": "crew", "min_count": 2}),
            ("/v1/quotas", {"project": "default", "max": {"cpu": 64}}),
            ("/v1/reservations", {"project": "default", "name": "night", "amounts": {"cpu": 1}}),
            ("/v1/tokens", {"host_name": "c"}),
        ]
        answers = [await service.ask("POST", path, json=body) for path, body in made]
        assert {answer.status_code for answer in answers} == {201}, answers
        theirs = await service.create("theirs", project="red")
        ours = (await service.create("ours")).json()
        await service.caught_up()
        self.secrets["viewer"] = await service.key("viewer")
        self.secrets["editor of red"] = await service.key("editor", project="red")
        key = (await service.ask("POST", "/v1/keys", json={"name": "spare", "role": "viewer"})).json()["key"]
        self.there = {
            "/v1/vms": {"id": ours["vm"]["id"]},
            "/v1/hosts": {"id": "a"},
            "/v1/operations": {"id": theirs.json()["operation"]["id"]},
            "/v1/projects/{project}": {"project": "default", "name": ours["vm"]["name"]},
            "/v1/projects": {"name": "default"},
            "/v1/gangs": {"project": "default", "name": "crew"},
            "/v1/quotas": {"project": "default"},
            "/v1/reservations": {"project": "default", "name": "night"},
            "/v1/tokens": {"id": answers[-1].json()["token"]["id"]},
            "/v1/keys": {"id": key["id"]},
        }

    async def belongings(self, *, without: str = "") -> list[Any]:
        """Return all that there is, as the administrator sees it at rest; not what is of one project."""
        await self.in_process.caught_up()
        found = []
        for name in _LISTS:
            items = (await self.in_process.ask("GET", f"/v1/{name}", params={"limit": 500})).json()["items"]
            found += [one for one in items if not without or one.get("project", one.get("name")) != without]
        return found


@contextmanager
def listening_service() -> Iterator[ListeningService]:
    """Give such a service."""
    ready, done = threading.Event(), threading.Event()
    found: list[ListeningService] = []

    async def live() -> None:
        async with open_service() as service:
            server = Server(uvicorn.Config(service.app, host="127.0.0.1", port=0, log_level="error"))
            serving = asyncio.ensure_future(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            listening = ListeningService(service, f"http://localhost:{port}", asyncio.get_running_loop())
            await listening.fill()
            found.append(listening)
            ready.set()
            await asyncio.to_thread(done.wait)
            service.context.stopping.set()
            server.should_exit = True
            await serving

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        assert ready.wait(GIVE_UP_S)
        yield found[0]
    finally:
        done.set()
        thread.join()
