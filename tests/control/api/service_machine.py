"""What a state machine over REST stands on: a service, its hosts, requests that carry keys and versions, and rest."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import httpx
from hypothesis.stateful import RuleBasedStateMachine

from hostler.control.fleet.duties import Duties
from hostler.control.settings import ControlSettings
from hostler.control.store.history import log
from tests.control.api.fake_hosts import FakeHost
from tests.control.api.promise_model import Fleet, Gang, Json, Known, Quota
from tests.control.api.service_in_process import InProcessService, open_service

__all__ = ["HOSTS", "Place", "ServiceMachine"]

T = TypeVar("T")
Place = tuple[str, str]  # project and name
HOSTS = {"a": 4, "b": 2, "c": 3}  # cores
_LONG = ControlSettings(silent_after_s=3600.0, verdict_s=60.0)  # hosts are silent when they are said to be


class ServiceMachine(RuleBasedStateMachine):
    """A service with hosts, and what its users were promised."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.door: AbstractAsyncContextManager[InProcessService] = open_service(settings=_LONG)
        self.service = self.run(self.door.__aenter__())
        self.duties = Duties(self.service.context.fleet)
        on_the_way: set[str] = set()
        self.hands = {name: FakeHost(self.service, name, cores, on_the_way) for name, cores in HOSTS.items()}
        self.vms: dict[Place, Known] = {}
        self.fleet = Fleet()
        self.quota = Quota()
        self.gang = Gang(least=2)
        self.moves: list[str] = []  # operations
        self.kept: dict[tuple[str, str, str], tuple[Json | None, httpx.Response]] = {}
        self.is_settled = True

    def teardown(self) -> None:
        self.run(self.door.__aexit__(None, None, None))
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def look(self, path: str, **query: Any) -> Json:
        """Read something that must be there."""
        answer = self.run(self.service.ask("GET", path, params=query))
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask for a change; the service itself never fails."""
        self.is_settled = False
        answer = self.run(self.service.ask(method, path, **more))
        assert answer.status_code < 500 or answer.json()["code"] == "no_available_agents", answer.text
        return answer

    def ask_once(self, method: str, path: str, body: Json | None, key: str) -> httpx.Response | None:
        """Ask with a key, or without; None where the key was used before: then it is known what must come back."""
        if not key:
            return self.ask(method, path, json=body)
        answer = self.ask(method, path, json=body, headers={"Idempotency-Key": key})
        before = self.kept.get((method, path, key))
        if before is None:
            if answer.status_code < 300:
                self.kept[method, path, key] = (body, answer)
            return answer
        if before[0] == body:
            assert (answer.status_code, answer.json()) == (before[1].status_code, before[1].json())
        else:
            assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_mismatch")
        return None

    def ask_matching(self, method: str, vm: Known, path: str, body: Json | None, match: str) -> httpx.Response | None:
        """Ask by what was seen last, which may be old; None where it was, and was refused for that."""
        now = self.run(self.service.ask("GET", f"/v1/vms/{vm.id}")).headers["etag"]
        seen = now if match == "now" else vm.etag
        answer = self.ask(method, path, json=body, headers={"If-Match": seen})
        if seen != now:
            assert (answer.status_code, answer.json()["code"]) == (412, "stale_version")
            vm.etag = now
            return None
        return answer

    def settle(self) -> None:
        """Let hosts do as they are told, until everything has come to rest."""
        self.run(self._settle())
        self.is_settled = True
        for place, known in list(self.vms.items()):
            known.may_move = False
            if known.power == "absent" and self.is_gone(known):
                del self.vms[place]
        if not self.fleet.silent:
            for operation in self.moves:
                assert self.look(f"/v1/operations/{operation}")["state"] != "pending"
            self.moves.clear()

    def is_gone(self, known: Known) -> bool:
        """Say whether the service knows a VM no longer."""
        return self.run(self.service.ask("GET", f"/v1/vms/{known.id}")).status_code == 404

    async def _settle(self) -> None:
        for _ in range(200):
            await self.service.caught_up()
            moved = 0
            for hand in self.hands.values():
                moved += await hand.obey()
            if self.fleet.draining:
                before = await self.service.database.read(log.head)
                await self.duties.look()
                moved += await self.service.database.read(log.head) - before
            if not moved:
                return
        raise AssertionError("it never comes to rest")
